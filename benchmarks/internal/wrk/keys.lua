-- Requests of many clients, told apart by a header field. Arguments: name of the field, number of clients, and the client
-- that comes first. The names of clients are those of internal/wrk/wrk.go.
local requests, last = {}, 0

function init(args)
  local field, clients, first = args[1], tonumber(args[2]), tonumber(args[3])
  for i = 1, clients do -- formatted once: wrk shares the processor with the server
    requests[i] = wrk.format("GET", nil, { [field] = string.format("user:%06d", i - 1) })
  end
  last = first % clients
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("requests=%d us=%d p50=%d p99=%d connect=%d read=%d write=%d timeout=%d status=%d\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
