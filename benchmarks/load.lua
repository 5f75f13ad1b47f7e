-- POST one file as fast as answers come; `wrk ... URL -- FILE CONTENT-TYPE [HEADER VALUE ...]`.
-- Prints one line of JSON at the end.

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  wrk.headers["Content-Type"] = arguments[2]
  for place = 3, #arguments, 2 do
    wrk.headers[arguments[place]] = arguments[place + 1]
  end
  file:close()
  request_bytes = wrk.format()
end

function request()
  return request_bytes
end

function done(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50": %.3f, "p99": %.3f, "refused": %d, "timeouts": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    failed.status, failed.timeout, failed.connect + failed.read + failed.write
  ))
end
