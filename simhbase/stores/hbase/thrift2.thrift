// What reading calls of HBase's Thrift 2 gateway (org.apache.hadoop.hbase.thrift2, hbase.thrift), and of
// that what it uses: fields that are not declared here are neither sent nor read.

exception TIOError {
  1: optional binary message
  2: optional bool canRetry
}

enum TReadType {
  DEFAULT = 1
  STREAM = 2
  PREAD = 3
}

struct TColumn {
  1: binary family
}

struct TScan {
  1: optional binary startRow
  2: optional binary stopRow
  3: optional list<TColumn> columns
  4: optional i32 caching
  7: optional binary filterString
  12: optional bool cacheBlocks
  14: optional TReadType readType
  15: optional i32 limit
  18: optional binary filterBytes
}

struct TColumnValue {
  1: binary family
  2: binary qualifier
  3: binary value
  4: optional i64 timestamp
  6: optional byte type
}

struct TResult {
  1: optional binary row
  2: list<TColumnValue> columnValues
  3: optional bool stale
  4: optional bool partial
}

service Reading {
  list<TResult> getScannerResults(1: binary table, 2: TScan tscan, 3: i32 numRows) throws (1: TIOError io)
  // 1 or 2: whether it is a Thrift 1 or a Thrift 2 server.
  i32 getThriftServerType()
}
