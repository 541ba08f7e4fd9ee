# For the HBase shell: every other region of the tables of documents is split, and those between are merged.
# Each region only once: a half is a reference to what was split, and can be neither split nor merged until
# servers have tidied up, which takes minutes.

java_import org.apache.hadoop.hbase.TableName
java_import org.apache.hadoop.hbase.client.ConnectionFactory
java_import org.apache.hadoop.hbase.util.Bytes

connection = ConnectionFactory.createConnection
admin = connection.getAdmin
splits = merges = 0
tables = %w[index fingerprints documents].map { |name| TableName.valueOf("reshaped_#{name}") }
regions = tables.flat_map { |table| admin.getRegions(table).sort_by { |region| Bytes.toHex(region.getStartKey) }.each_slice(3).to_a }
regions.each do |whole, first, second|
  from, to = [whole, first].map { |region| Bytes.toInt(Bytes.padTail(region.getStartKey, 4)) & 0xffffffff }
  admin.splitRegionAsync(whole.getRegionName, [(from + to) / 2].pack('N').to_java_bytes).get
  splits += 1
  admin.mergeRegionsAsync([first.getRegionName, second.getRegionName].to_java(Java::byte[]), false).get
  merges += 1
end
connection.close
puts "split #{splits} times, merged #{merges} times"
exit
