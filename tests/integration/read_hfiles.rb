# Reads HFiles with HBase's own classes, as a region server does, and compares them with FILE.expected: int64
# time, int32 n, then int32 length, row, int32 length, value of each. Prints a line of JSON for each file.
# Only HFileSystem has HBase look at its own checksums.
require 'json'
java_import org.apache.hadoop.fs.Path
java_import org.apache.hadoop.hbase.PrivateCellUtil
java_import org.apache.hadoop.hbase.CellUtil
java_import org.apache.hadoop.hbase.io.hfile.HFile
java_import org.apache.hadoop.hbase.io.hfile.CacheConfig
java_import org.apache.hadoop.hbase.util.BloomFilterFactory

CONF = org.apache.hadoop.hbase.HBaseConfiguration.create
CONF.set('fs.defaultFS', 'file:///')
FILES = org.apache.hadoop.hbase.fs.HFileSystem.new(CONF, true)
SEEKS = 300

def expected(name)
  content = File.binread("#{name}.expected")
  time, n = content.unpack('q>l>')
  place = 12
  strings = Array.new(2 * n) do
    size = content.byteslice(place, 4).unpack1('l>')
    found = content.byteslice(place + 4, size)
    place += 4 + size
    found
  end
  [time, strings.each_slice(2).to_a]
end

def row_of(cell)
  String.from_java_bytes(CellUtil.cloneRow(cell))
end

def cells(scanner, time, rows)
  count = wrong = 0
  more = scanner.seekTo
  while more
    cell = scanner.getCell
    row, value = rows[count]
    same = row == row_of(cell) && value == String.from_java_bytes(CellUtil.cloneValue(cell))
    wrong += 1 unless same && cell.getTimestamp == time && cell.getQualifierLength.zero? && cell.getTypeByte == 4
    count += 1
    more = scanner.next
  end
  { cells: count, wrong_cells: wrong }
end

def seeks(scanner, rows, random)
  wrong = 0
  SEEKS.times do
    number = random.rand(rows.size)
    row = rows[number][0].to_java_bytes
    key = PrivateCellUtil.createFirstOnRow(row, 0, row.length)
    found = scanner.java_send(:seekTo, [org.apache.hadoop.hbase.Cell.java_class], key)
    found == -1 ? scanner.seekTo : (scanner.next if found == 1)
    wrong += 1 unless row_of(scanner.getCell) == rows[number][0]
    before = scanner.seekBefore(key)
    wrong += 1 unless before == number.positive?
    wrong += 1 if before && row_of(scanner.getCell) != rows[number - 1][0]
  end
  { wrong_seeks: wrong }
end

# How often the Bloom filter misses rows that are there, and takes others for such.
def bloom(reader, rows, random)
  meta = reader.getGeneralBloomFilterMetadata
  return { bloom: nil } if meta.nil?

  filter = BloomFilterFactory.createFromMeta(meta, reader)
  info = reader.getHFileInfo
  prefix = info.get('BLOOM_FILTER_PARAM'.to_java_bytes)
  prefix &&= String.from_java_bytes(prefix).unpack1('l>')
  missed = taken = 0
  SEEKS.times do
    row = rows[random.rand(rows.size)][0]
    row = row.byteslice(0, prefix) if prefix
    missed += 1 unless filter.contains(row.to_java_bytes, 0, row.bytesize, nil)
    other = row.byteslice(0, 1) + random.bytes(row.bytesize - 1)
    taken += 1 if filter.contains(other.to_java_bytes, 0, other.bytesize, nil)
  end
  type = String.from_java_bytes(info.get('BLOOM_FILTER_TYPE'.to_java_bytes))
  { bloom: type, missed: missed, taken: taken.fdiv(SEEKS) }
end

def read(name)
  time, rows = expected(name)
  reader = HFile.createReader(FILES, Path.new("file://#{name}"), CacheConfig.new(CONF), true, CONF)
  scanner = reader.getScanner(CONF, false, false)
  random = Random.new(1)
  found = { levels: reader.getTrailer.getNumDataIndexLevels }
  [cells(scanner, time, rows), seeks(scanner, rows, random), bloom(reader, rows, random)].each do |part|
    found.update(part)
  end
  found
ensure
  reader&.close
end

ARGV.each do |name|
  found = read(name)
  # HBase reads what has a wrong checksum once more by those of the file system, of which there are none here.
  found[:failed_checksums] = HFile.getAndResetChecksumFailuresCount
  puts "simhbase: #{found.to_json}"
end
