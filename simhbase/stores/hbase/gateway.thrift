// What simhbase calls of HBase's Thrift 1 gateway (org.apache.hadoop.hbase.thrift, Hbase.thrift), and
// of that what it uses: fields that are not declared here are neither sent nor read.

exception IOError {
  1: binary message
  2: bool canRetry
}

exception IllegalArgument {
  1: binary message
}

struct Mutation {
  1: bool isDelete = 0
  2: binary column
  3: binary value
}

struct BatchMutation {
  1: binary row
  2: list<Mutation> mutations
}

struct Scan {
  1: binary startRow
  2: binary stopRow
  4: list<binary> columns
  5: i32 caching
  10: bool cacheBlocks
}

struct Cell {
  1: binary value
  2: i64 timestamp
}

struct Row {
  1: binary row
  2: map<binary, Cell> columns
}

// A row of a table whose rows have no values.
struct Key {
  1: binary row
}

service Gateway {
  // 1 or 2: whether it is a Thrift 1 or a Thrift 2 server.
  i32 getThriftServerType()
  bool isTableEnabled(1: binary tableName) throws (1: IOError io)

  void mutateRows(1: binary tableName, 2: list<BatchMutation> rowBatches, 3: map<binary, binary> attributes)
    throws (1: IOError io, 2: IllegalArgument ia)
  void mutateRowsTs(1: binary tableName, 2: list<BatchMutation> rowBatches, 3: i64 timestamp,
    4: map<binary, binary> attributes) throws (1: IOError io, 2: IllegalArgument ia)
  bool checkAndPut(1: binary tableName, 2: binary row, 3: binary column, 5: binary value, 6: Mutation mput,
    7: map<binary, binary> attributes) throws (1: IOError io, 2: IllegalArgument ia)
  i64 atomicIncrement(1: binary tableName, 2: binary row, 3: binary column, 4: i64 value)
    throws (1: IOError io, 2: IllegalArgument ia)

  list<Row> getRowsWithColumns(1: binary tableName, 2: list<binary> rows, 3: list<binary> columns,
    4: map<binary, binary> attributes) throws (1: IOError io)
  i32 scannerOpenWithScan(1: binary tableName, 2: Scan scan, 3: map<binary, binary> attributes)
    throws (1: IOError io)
  list<Row> scannerGetList(1: i32 id, 2: i32 nbRows) throws (1: IOError io, 2: IllegalArgument ia)
  void scannerClose(1: i32 id) throws (1: IOError io, 2: IllegalArgument ia)
}

// The same answers with the keys of the rows alone: what is not declared is skipped, which takes a
// quarter of the time.
service Keys {
  list<Key> getRowsWithColumns(1: binary tableName, 2: list<binary> rows, 3: list<binary> columns,
    4: map<binary, binary> attributes) throws (1: IOError io)
  list<Key> scannerGetList(1: i32 id, 2: i32 nbRows) throws (1: IOError io, 2: IllegalArgument ia)
}
