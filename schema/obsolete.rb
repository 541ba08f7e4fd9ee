# Made by `python -m simhbase.stores.hbase.schema schema`. `simhbase tables ddl` prints the same
# for other names, numbers of regions, compression and time to live.

create 'simhbase_obsolete',
  {NAME => 'd',
   VERSIONS => '1',
   DATA_BLOCK_ENCODING => 'FAST_DIFF',
   BLOCKSIZE => '16384',
   BLOCKCACHE => 'true',
   KEEP_DELETED_CELLS => 'FALSE',
   BLOOMFILTER => 'NONE'},
  SPLITS => ['\x40', '\x80', '\xC0']

exit
