# Made by `python -m simhbase.stores.hbase.schema schema`. `simhbase tables ddl` prints the same
# for other names, numbers of regions, compression and time to live.

create 'simhbase_met',
  {NAME => 'd',
   VERSIONS => '1',
   DATA_BLOCK_ENCODING => 'FAST_DIFF',
   BLOCKSIZE => '16384',
   BLOCKCACHE => 'true',
   KEEP_DELETED_CELLS => 'FALSE',
   BLOOMFILTER => 'ROW'},
  SPLITS => ['\x10', '\x20', '\x30', '\x40', '\x50', '\x60', '\x70', '\x80', '\x90', '\xA0', '\xB0', '\xC0', '\xD0', '\xE0', '\xF0']

exit
