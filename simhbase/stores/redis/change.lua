-- Changes and reads the tables of a store in one step.
-- KEYS[1]: PREFIX:counts, numbers of rows by table; ARGV: the identity of the tables that were opened, or '';
-- the operation; its own, which are counted from 2. The other keys begin with the same prefix: Redis Cluster,
-- which would have to know them, is refused.
--
-- A table's rows are members of sorted sets, with equal scores and so in the order of their bytes: a set for
-- the first two bytes of the keys. A member is the rest of the key, with 00 as 00 ff; 00 00; the version,
-- 8 bytes; the value. Bits of the string PREFIX:TABLE tell which of these sets there may be.
local prefix = string.sub(KEYS[1], 1, -7)
local sub, call = string.sub, redis.call
local NAME, ROW = 11, 32 -- bytes: a drawer's name; with a fingerprint in decimal and zeros behind it

local function number(version)
  local high, low = struct.unpack('>I4I4', version)
  return high * 4294967296 + low
end

local function escaped(rest)
  return (string.gsub(rest, '%z', '\0\255'))
end

-- The set of a key, how its member begins, and the member if there is one.
local function stored(tab, key)
  local name = prefix .. tab .. ':' .. sub(key, 1, 2)
  local start = escaped(sub(key, 3)) .. '\0'
  local found = call('ZRANGEBYLEX', name, '[' .. start .. '\0', '(' .. start .. '\1', 'LIMIT', 0, 1)
  return name, start .. '\0', found[1]
end

-- The number of a set, in the order of names: '', 00, 00 00, ..., 00 ff, 01, 01 00, ...
local function place(key)
  local first, second = string.byte(key, 1, 2)
  return first and 1 + first * 257 + (second and second + 1 or 0) or 0
end

local function named(at)
  if at == 0 then
    return ''
  end
  local first, second = math.floor((at - 1) / 257), (at - 1) % 257
  return string.char(first) .. (second > 0 and string.char(second - 1) or '')
end

-- Puts a row; returns 1 if it is new.
local function put(tab, key, suffix, name, start, found)
  if found == start .. suffix then
    return 0
  end
  if found then
    call('ZREM', name, found)
  end
  call('ZADD', name, 0, start .. suffix)
  if found then
    return 0
  end
  call('SETBIT', prefix .. tab, place(key), 1)
  return 1
end

local function rows(command, packed)
  local changed = 0
  for first = 1, #packed, ROW do
    local name = prefix .. sub(packed, first, first + NAME - 1)
    changed = changed + call(command, name, string.match(packed, '^%-?%d+', first + NAME))
  end
  return changed
end

local function count(tab, by)
  if by ~= 0 then
    call('HINCRBY', KEYS[1], tab, by)
  end
end

-- ARGV: token of the lock or '', lease in milliseconds, '1' if anything is put, index rows to remove, to add;
-- then for each table its name, '1' if higher versions stay, how many to delete, key and highest version of
-- each ('': any), how many to put, key and suffix of each.
local function change()
  if ARGV[2] ~= '' and call('GET', prefix .. 'lock') ~= ARGV[2] then
    return redis.error_reply('LOCKLOST the lock was taken by another')
  end
  if ARGV[4] == '1' then
    -- If memory is full, Redis refuses the first write of a script: let it be one that changes nothing.
    call('HINCRBY', KEYS[1], 'index', 0)
  end
  if ARGV[2] ~= '' then
    call('PEXPIRE', prefix .. 'lock', ARGV[3])
  end
  local gone = rows('SREM', ARGV[5])
  count('index', rows('SADD', ARGV[6]) - gone)
  local at = 7
  while ARGV[at] do
    local tab, versioned, more = ARGV[at], ARGV[at + 1] == '1', 0
    local last = at + 2 + 2 * ARGV[at + 2]
    for i = at + 3, last, 2 do
      local name, start, found = stored(tab, ARGV[i])
      local most = ARGV[i + 1]
      if found and (most == '' or number(sub(found, #start + 1, #start + 8)) <= number(most)) then
        call('ZREM', name, found)
        more, gone = more - 1, gone + 1
      end
    end
    at = last + 1
    last = at + 2 * ARGV[at]
    for i = at + 1, last, 2 do
      local name, start, found = stored(tab, ARGV[i])
      local suffix = ARGV[i + 1]
      if not (versioned and found and number(sub(found, #start + 1, #start + 8)) > number(suffix)) then
        more = more + put(tab, ARGV[i], suffix, name, start, found)
      end
    end
    count(tab, more)
    at = last + 1
  end
  if gone > 0 then
    call('HINCRBY', KEYS[1], 'removals', 1)
  end
  return 1
end

-- ARGV: table, key, '1' if a value is expected, which, the new value.
local function compare_and_set()
  local name, start, found = stored(ARGV[2], ARGV[3])
  local held = found and sub(found, #start + 9)
  if held == (ARGV[4] == '1' and ARGV[5] or nil) then
    local version = found and number(sub(found, #start + 1, #start + 8)) + 1 or 0
    local packed = struct.pack('>I4I4', math.floor(version / 4294967296), version % 4294967296)
    count(ARGV[2], put(ARGV[2], ARGV[3], packed .. ARGV[6], name, start, found))
    return 1
  end
  return held == ARGV[6] and 1 or 0
end

-- ARGV: table, first key, the key to stop before ('': none), most rows, most sets. Returns 1 if there may be
-- more, the name of the set where to continue ('': behind the last row), and names of sets, each with rows.
local function iterate()
  local tab, start, stop, left = prefix .. ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
  local first, last, sets = place(start), stop == '' and math.huge or place(stop), tonumber(ARGV[6])
  local answer = { 0, '' }
  local at = call('BITPOS', tab, 1, first, -1, 'BIT')
  while at >= 0 and at <= last do
    if sets == 0 then
      answer[1], answer[2] = 1, named(at)
      return answer
    end
    local low = at == first and '[' .. escaped(sub(start, 3)) or '-'
    local high = at == last and '(' .. escaped(sub(stop, 3)) or '+'
    local found = call('ZRANGEBYLEX', tab .. ':' .. named(at), low, high, 'LIMIT', 0, left)
    if #found > 0 then
      answer[#answer + 1] = named(at)
      answer[#answer + 1] = found
      left = left - #found
      if left == 0 then
        answer[1] = 1
        return answer
      end
    end
    sets = sets - 1
    at = call('BITPOS', tab, 1, at + 1, -1, 'BIT')
  end
  return answer
end

local operations = {
  change = change,
  compare_and_set = compare_and_set,
  iterate = iterate,
}
local identity = table.remove(ARGV, 1)
if identity ~= '' and call('GET', prefix .. 'format') ~= identity then
  return redis.error_reply('NOTABLES the tables were dropped, or dropped and created again, since they were opened')
end
return operations[ARGV[1]]()
