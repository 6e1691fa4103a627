package replay

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Request is a request of an inference trace.
type Request struct {
	At                 time.Duration // since the first
	Context, Generated int           // tokens of the prompt and of the answer
}

// ReadRequests reads an inference trace as Azure publishes them: CSV with the columns
// TIMESTAMP ("2023-11-16 18:15:46.6805900"), ContextTokens and GeneratedTokens,
// ascending. Errors have file and line; name is the file's name in them.
func ReadRequests(name string, r io.Reader) ([]Request, error) {
	var all []Request
	var first time.Time
	err := readRows(name, r, []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, nil, func(row *row) error {
		text := row.text("TIMESTAMP")
		at, err := time.Parse("2006-01-02 15:04:05.999999999", text)
		if err != nil {
			row.fail("TIMESTAMP", "%q: want a time such as 2023-11-16 18:15:46.68", text)
		}
		if len(all) == 0 {
			first = at
		}
		q := Request{at.Sub(first), row.number("ContextTokens", maxAmount), row.number("GeneratedTokens", maxAmount)}
		if len(all) > 0 && q.At < all[len(all)-1].At || q.At > maxTrace {
			row.fail("TIMESTAMP", "%q: want times in order, within a week", text)
		}
		all = append(all, q)
		return row.err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s:1: no request", name)
	}
	return all, err
}

const maxTrace = 7 * 24 * time.Hour

// Serving is how a trace of requests becomes replicas.
type Serving struct {
	Days    float64 // the trace is repeated for so long
	Scale   float64 // requests for each request of the trace at 14:00, the busiest hour
	Night   float64 // share of Scale at 2:00, the quietest hour; a cosine lies between them
	Prefill float64 // prompt tokens a second, of each request
	Decode  float64 // generated tokens a second, of each request
	// PerReplica is the HPA's target: requests in flight for each replica.
	PerReplica  float64
	Milli       int // thousandths of a GPU, of a replica
	CPU, Memory int // of a replica: thousandths of a core, MiB
}

// The HPA's defaults: kube-controller-manager's flags and the behavior of
// autoscaling/v2.
const (
	hpaPeriod    = 15 * time.Second
	hpaTolerance = 0.1
	hpaStable    = 300 / 15 // periods that a scale down looks back
	hpaPods      = 4        // a scale up adds at most this many in a period, or as many as there are if that is more
	maxReplicas  = 100_000
)

func (s Serving) check() error {
	const some, much = 1e-6, 1e9
	return check([]bound{
		{"request-days", s.Days, some, 366}, {"request-scale", s.Scale, some, much}, {"request-night", s.Night, 0, 1}, {"prefill", s.Prefill, some, much},
		{"decode", s.Decode, some, much}, {"per-replica", s.PerReplica, some, much}, {"replica-gpu-milli", float64(s.Milli), 1, 1000},
		{"replica-cpu-milli", float64(s.CPU), 0, maxAmount}, {"replica-memory-mib", float64(s.Memory), 0, maxAmount},
	})
}

// Replicas returns the pods that an HPA creates for the requests in flight, whose number
// does not depend on how many replicas run. A scale down removes the newest pods.
func Replicas(requests []Request, s Serving) ([]Pod, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	load := inFlight(requests, s)
	var pods []Pod
	var up []int     // indices in pods of the current replicas
	var recent []int // what was desired in the last periods
	for i := range int(s.Days * float64(24*time.Hour/hpaPeriod)) {
		now := time.Duration(i) * hpaPeriod
		hour := math.Mod(now.Hours(), 24)
		rate := s.Night + (1-s.Night)*(1-math.Cos(2*math.Pi*(hour-2)/24))/2
		want := desired(len(up), load[i%len(load)]*s.Scale*rate/s.PerReplica)
		recent = append(recent, want)[max(0, len(recent)+1-hpaStable):]
		if want < len(up) { // a scale down takes the highest of the last five minutes
			want = min(slices.Max(recent), len(up))
		}
		if want > maxReplicas {
			return nil, fmt.Errorf("%d replicas, at most %d: use a smaller scale", want, maxReplicas)
		}
		for len(up) < want {
			up = append(up, len(pods))
			pods = append(pods, Pod{Name: fmt.Sprintf("replica-%d", len(pods)), CPU: s.CPU, Memory: s.Memory, GPUs: 1, Milli: s.Milli, Replica: true, Created: now})
		}
		for ; len(up) > want; up = up[:len(up)-1] {
			p := &pods[up[len(up)-1]]
			p.Run = now - p.Created
		}
	}
	for _, i := range up {
		pods[i].Run = time.Duration(s.Days*float64(24*time.Hour)) - pods[i].Created
	}
	return pods, nil
}

// desired returns the replicas that the HPA sets: have is the current number, load how many
// replicas the requests fill at the target.
func desired(have int, load float64) int {
	want := max(1, int(math.Ceil(min(load, 1e9))))
	if have == 0 {
		return 1
	}
	if math.Abs(load/float64(have)-1) <= hpaTolerance {
		return have
	}
	return min(want, have+max(have, hpaPods))
}

// inFlight returns the mean number of requests in flight in each HPA period of the trace.
// The part of a request after the trace's end counts at the trace's beginning, since the
// trace is repeated.
func inFlight(requests []Request, s Serving) []float64 {
	n := int(requests[len(requests)-1].At/hpaPeriod) + 1
	load := curve{hpaPeriod, make([]float64, n)}
	whole := time.Duration(n) * hpaPeriod
	for _, q := range requests {
		seconds := min(float64(q.Context)/s.Prefill+float64(q.Generated)/s.Decode, whole.Seconds())
		d := time.Duration(seconds * float64(time.Second))
		inside := min(d, whole-q.At)
		load.add(q.At, inside, 1)
		load.add(0, d-inside, 1)
	}
	return load.gpus
}
