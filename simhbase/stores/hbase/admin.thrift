// What simhbase calls of HBase's Thrift 2 gateway (org.apache.hadoop.hbase.thrift2, hbase.thrift), and
// of that what it uses: fields that are not declared here are neither sent nor read.

exception TIOError {
  1: binary message
  2: bool canRetry
}

enum TBloomFilterType {
  NONE = 0
  ROW = 1
  ROWCOL = 2
  ROWPREFIX_FIXED_LENGTH = 3
}

enum TCompressionAlgorithm {
  LZO = 0
  GZ = 1
  NONE = 2
  SNAPPY = 3
  LZ4 = 4
  BZIP2 = 5
  ZSTD = 6
}

enum TDataBlockEncoding {
  NONE = 0
  PREFIX = 2
  DIFF = 3
  FAST_DIFF = 4
  ROW_INDEX_V1 = 7
}

enum TKeepDeletedCells {
  FALSE = 0
  TRUE = 1
  TTL = 2
}

enum TDurability {
  USE_DEFAULT = 0
  SKIP_WAL = 1
  ASYNC_WAL = 2
  SYNC_WAL = 3
  FSYNC_WAL = 4
}

struct TTableName {
  1: binary ns
  2: binary qualifier
}

struct TColumnFamilyDescriptor {
  1: binary name
  2: map<binary, binary> attributes
  3: map<binary, binary> configuration
  4: i32 blockSize
  5: TBloomFilterType bloomnFilterType
  6: TCompressionAlgorithm compressionType
  8: TDataBlockEncoding dataBlockEncoding
  9: TKeepDeletedCells keepDeletedCells
  10: i32 maxVersions
  13: i32 timeToLive
  14: bool blockCacheEnabled
}

struct TTableDescriptor {
  1: TTableName tableName
  2: list<TColumnFamilyDescriptor> columns
  4: TDurability durability
}

struct THRegionLocation {
}

struct TNamespaceDescriptor {
  1: binary name
  2: map<binary, binary> configuration
}

service Administration {
  TTableDescriptor getTableDescriptor(1: TTableName table) throws (1: TIOError io)
  bool tableExists(1: TTableName tableName) throws (1: TIOError io)
  bool isTableEnabled(1: TTableName tableName) throws (1: TIOError io)
  void createTable(1: TTableDescriptor desc, 2: list<binary> splitKeys) throws (1: TIOError io)
  void disableTable(1: TTableName tableName) throws (1: TIOError io)
  void deleteTable(1: TTableName tableName) throws (1: TIOError io)
  list<THRegionLocation> getAllRegionLocations(1: binary table) throws (1: TIOError io)
  list<binary> listNamespaces() throws (1: TIOError io)
  void createNamespace(1: TNamespaceDescriptor namespaceDesc) throws (1: TIOError io)
  TNamespaceDescriptor getNamespaceDescriptor(1: binary ns) throws (1: TIOError io)
  void deleteNamespace(1: binary name) throws (1: TIOError io)
}
