#!lua flags=allow-oom
-- The lock of a store, also while memory is full: what is deleted makes room.
-- KEYS: PREFIX:lock, PREFIX:unlocked; ARGV: take or release, the holder's token, lease in milliseconds.
-- It ends with its lease, which changes renew. Who waits for it does so on the list PREFIX:unlocked, and
-- releases it if its holder is no longer connected (`Client._release_if_holder_gone`).
if ARGV[1] == 'take' then
  return redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) and 1 or 0
end
if redis.call('GET', KEYS[1]) == ARGV[2] then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('RPUSH', KEYS[2], 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  return 1
end
return 0
