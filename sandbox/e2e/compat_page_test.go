package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// compatPage is what Prometheus scrapes for compat_test.go: %d are milliseconds
// three minutes ago, and %s a count that grows by ten a second.
const compatPage = `
jobs_waiting{namespace="shop",pod="web-1",topic="a",version="1.2"} 4
jobs_waiting{namespace="shop",pod="web-1",topic="b",version="1x2"} 6.5
jobs_waiting{namespace="shop",pod="web-2",topic="a",version="1x2"} 16.66666
jobs_waiting{namespace="shop",pod="web-2",topic="c",version="2"} 3
jobs_waiting{namespace="bank",pod="web-1",topic="a",version="1.2"} 100
jobs_waiting{namespace="bank",pod="web-3",topic="a",version="2"} 0
mem_bytes{namespace="shop",pod="web-1"} 2e12
mem_bytes{namespace="shop",pod="web-2"} 3e12
mem_bytes{namespace="bank",pod="web-1"} 1234567.8
tiny{namespace="shop",pod="web-1"} 0.0004
tiny{namespace="shop",pod="web-2"} 0.5
minus{namespace="shop",pod="web-1"} -3.25
minus{namespace="shop",pod="web-2"} 4
bad_nan{namespace="shop",pod="web-1"} NaN
bad_nan{namespace="shop",pod="web-2"} 5
bad_nan{namespace="bank",pod="web-1"} 5
bad_inf{namespace="shop",pod="web-1"} +Inf
bad_inf{namespace="shop",pod="web-2"} -Inf
bad_inf{namespace="bank",pod="web-1"} 5
bad_huge{namespace="shop",pod="web-1"} 1e300
bad_huge{namespace="shop",pod="web-2"} 5
bad_huge{namespace="bank",pod="web-1"} 5
old_queue{namespace="shop",pod="web-1"} 7 %[1]d
old_queue{namespace="shop",pod="web-2"} 7
old_queue{namespace="bank",pod="web-1"} 7
gone_queue{namespace="shop",pod="deleted-1"} 7
http_requests_total{namespace="shop",pod="web-1",service="front",method="GET"} %[2]s
http_requests_total{namespace="shop",pod="web-1",service="front",method="PUT"} %[2]s
http_requests_total{namespace="shop",pod="web-2",service="front",method="GET"} %[2]s
http_requests_total{namespace="bank",pod="web-1",service="vault",method="GET"} %[2]s
twice_running{namespace="shop",pod="web-1",container="a"} 8
twice_running{namespace="shop",pod="web-1",container="b"} 0
twice_running{namespace="shop",pod="web-2",container="a"} 3
twice_running{namespace="bank",pod="web-1",container="a"} 3
twice_running_hidden{namespace="shop",pod="web-1"} 1
temperature{node="node-a",sensor="x"} 41
temperature{node="node-a",sensor="y"} 43.5
temperature{node="node-b",sensor="x"} 40
backlog{namespace="shop",deploy="web"} 12
backlog{namespace="bank",deploy="web"} 13
lag{namespace="shop",topic="a"} 5
lag{namespace="shop",topic="b"} 6.25
lag{namespace="bank",topic="a"} 100
lag_minus{namespace="shop",topic="a"} -5
lag_nan{namespace="shop",topic="a"} NaN
lag_nan{namespace="shop",topic="b"} 5
lag_nan{namespace="bank",topic="b"} 5
lag_inf{namespace="shop",topic="a"} +Inf
lag_huge{namespace="shop",topic="a"} 1e300
lag_old{namespace="shop",topic="a"} 5 %[1]d
lag_old{namespace="bank",topic="a"} 5
`

func servePage(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	grown := fmt.Sprintf("%.3f", float64(now.UnixMilli()%1e9)/100)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = fmt.Fprintf(w, strings.TrimLeft(compatPage, "\n"), now.Add(-3*time.Minute).UnixMilli(), grown)
}
