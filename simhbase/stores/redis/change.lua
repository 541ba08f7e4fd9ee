-- Changes and reads the tables of a store in one step.
-- KEYS[1]: PREFIX:counts, the identity of the tables (`store`) and numbers of rows by table; ARGV: the identity
-- of the tables that were opened, or ''; the operation; its own, which are counted from 2. The other keys begin
-- with the same prefix: Redis Cluster, which would have to know them, is refused.
--
-- A table's rows are members of sorted sets, with equal scores and so in the order of their bytes: a set for
-- the first two bytes of the keys, and one set for all of meta. A member is the rest of the key, with 00 as
-- 00 ff; 00 00; the version, 8 bytes; the value. The string PREFIX:TABLE is the directory: how many rows each
-- of these sets has, in 4 bytes. So a set, a directory or a count that is lost is noticed by the others.
local prefix = string.sub(KEYS[1], 1, -7)
local sub, call = string.sub, redis.call
local NAME, ROW = 11, 32 -- bytes: a drawer's name; with a fingerprint in decimal and zeros behind it
local SETS = 1 + 256 * 257

local function number(version)
  local high, low = struct.unpack('>I4I4', version)
  return high * 4294967296 + low
end

local function escaped(rest)
  return (string.gsub(rest, '%z', '\0\255'))
end

-- A key's name of its set, and the rest.
local function split(tab, key)
  local length = tab == 'meta' and 0 or 2
  return sub(key, 1, length), sub(key, length + 1)
end

-- The set of a key, how its member begins, and the member if there is one.
local function stored(tab, key)
  local set, rest = split(tab, key)
  local name = prefix .. tab .. ':' .. set
  local start = escaped(rest) .. '\0'
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

-- How many rows a set has, and how many the directory says.
local function sizes(tab, set)
  local noted = call('BITFIELD_RO', prefix .. tab, 'GET', 'u32', '#' .. place(set))[1]
  return call('ZCARD', prefix .. tab .. ':' .. set), noted
end

local function damaged(tab, there, noted)
  return redis.error_reply(string.format('DAMAGED %s: %d rows of a set of %d are there', tab, there, noted))
end

-- Notes in the directory that a key's set has more or fewer rows: not less than none, if the directory is lost.
local function note(tab, key, by)
  call('BITFIELD', prefix .. tab, 'OVERFLOW', 'SAT', 'INCRBY', 'u32', '#' .. place((split(tab, key))), by)
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
  note(tab, key, 1)
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

-- An error if a set has lost rows that something is to be put into, as of `change`: lookups notice a set that
-- is gone, and would not notice one that has a few rows again.
local function lost_rows()
  local at = 7
  while ARGV[at] do
    local tab, seen = ARGV[at], {}
    at = at + 3 + 2 * ARGV[at + 2]
    local last = at + 2 * ARGV[at]
    for i = at + 1, last, 2 do
      local set = split(tab, ARGV[i])
      if not seen[set] then
        seen[set] = true
        local there, noted = sizes(tab, set)
        if there < noted then
          return damaged(tab, there, noted)
        end
      end
    end
    at = last + 1
  end
end

-- ARGV: token of the lock or '', lease in milliseconds, '1' if anything is put, index rows to remove, to add;
-- then for each table its name, '1' if higher versions stay, how many to delete, key and highest version of
-- each ('': any), how many to put, key and suffix of each.
local function change()
  if ARGV[2] ~= '' and call('GET', prefix .. 'lock') ~= ARGV[2] then
    return redis.error_reply('LOCKLOST the lock was taken by another')
  end
  local damage = lost_rows()
  if damage then
    return damage
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
        note(tab, ARGV[i], -1)
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
  local there, noted = sizes(ARGV[2], (split(ARGV[2], ARGV[3])))
  if there < noted then
    return damaged(ARGV[2], there, noted)
  end
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

-- ARGV: the identity of tables that are created, names of counts. Returns 1 unless there are tables.
local function create()
  if call('HSETNX', KEYS[1], 'store', ARGV[2]) == 0 then
    return 0
  end
  for i = 3, #ARGV do
    call('HSET', KEYS[1], ARGV[i], 0)
  end
  return 1
end

-- ARGV: table. Returns its directory, and how many rows were counted.
local function directory()
  return { call('GET', prefix .. ARGV[2]) or '', call('HGET', KEYS[1], ARGV[2]) }
end

-- ARGV: table, first key, the key to stop before ('': none), most rows, '1' if sets must be as the directory
-- says, names of sets. Returns the rows of each set, until they are as many.
local function read()
  local tab, left, answer = ARGV[2], tonumber(ARGV[5]), {}
  local first, above = split(tab, ARGV[3])
  local last, below = split(tab, ARGV[4])
  for i = 7, #ARGV do
    local set, name = ARGV[i], prefix .. tab .. ':' .. ARGV[i]
    local there, noted = sizes(tab, set)
    if ARGV[6] == '1' and there ~= noted then
      return damaged(tab, there, noted)
    end
    local low = set == first and '[' .. escaped(above) or '-'
    local high = ARGV[4] ~= '' and set == last and '(' .. escaped(below) or '+'
    local found = call('ZRANGEBYLEX', name, low, high, 'LIMIT', 0, left)
    answer[#answer + 1] = found
    left = left - #found
    if left == 0 then
      break
    end
  end
  return answer
end

-- ARGV: table, '1' to write. Makes its directory and count by the sets that are there. Returns the directory,
-- and 1 if both were right.
local function recount()
  local tab, total, sizes, last = ARGV[2], 0, {}, 0
  for at = 0, tab == 'meta' and 0 or SETS - 1 do
    local there = call('ZCARD', prefix .. tab .. ':' .. named(at))
    sizes[at + 1], total = struct.pack('>I4', there), total + there
    last = there > 0 and at + 1 or last
  end
  local packed, noted = table.concat(sizes, '', 1, last), call('GET', prefix .. tab) or ''
  local is_right = sub(noted, 1, #packed) == packed and not string.find(noted, '[^%z]', #packed + 1)
  is_right = is_right and call('HGET', KEYS[1], tab) == tostring(total)
  if ARGV[3] == '1' then
    call('SET', prefix .. tab, packed)
    call('HSET', KEYS[1], tab, total)
  end
  return { packed, is_right and 1 or 0 }
end

-- ARGV: how many index rows there are. Returns 1 if as many were counted.
local function recount_index()
  local is_right = call('HGET', KEYS[1], 'index') == ARGV[2]
  call('HSET', KEYS[1], 'index', ARGV[2])
  return is_right and 1 or 0
end

local operations = {
  change = change,
  compare_and_set = compare_and_set,
  create = create,
  directory = directory,
  read = read,
  recount = recount,
  recount_index = recount_index,
}
local identity = table.remove(ARGV, 1)
if identity ~= '' and call('HGET', KEYS[1], 'store') ~= identity then
  return redis.error_reply('NOTABLES the tables that were opened are gone')
end
return operations[ARGV[1]]()
