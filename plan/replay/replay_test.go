package replay

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

func options() Options {
	return Options{Model: "A100-80GB", GPUs: []int{2}, CPU: 64000, Memory: 1 << 18, MaxNodes: 10, Price: 2, Boot: 3 * time.Minute,
		Repartition: 30 * time.Second, Interval: 10 * time.Second, IdleAfter: 10 * time.Minute, Copies: 1, Seed: 1}
}

const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"

func read(t *testing.T, text string) []Pod {
	t.Helper()
	pods, err := ReadPods("pods.csv", strings.NewReader(text))
	require.NoError(t, err)
	return pods
}

func traced(t *testing.T, text string, o Options) *trace {
	t.Helper()
	x, err := newTrace(read(t, text), o)
	require.NoError(t, err)
	return x
}

func play(t *testing.T, text string, o Options) Result {
	t.Helper()
	return playPods(t, o, read(t, text)...)
}

func playPods(t *testing.T, o Options, pods ...Pod) Result {
	t.Helper()
	r, err := Play(pods, o, true)
	require.NoError(t, err)
	return r
}

// One pod on one node: every figure can be counted by hand.
func TestOnePod(t *testing.T) {
	r := play(t, header+"a,1000,1000,1,1000,60,3660,60\n", options())
	// The bound counts whole GPUs, and the scarcer of compute and memory: 4g.40gb and 1g.20gb have 5 of 7 and 6 of 8
	// slices.
	x := traced(t, header+"a,1,1,2,1000,0,3600,\nb,1,1,1,480,0,3600,\nc,1,1,1,130,0,3600,\n", options())
	if want := 2 + (4.+2)/8; math.Abs(x.bound()-want) > 1e-9 {
		t.Errorf("%v, want %v", x.bound(), want)
	}
	if len(r.Runs) != 3 || r.Bound != 1 || r.BoundAtOnce != 2 {
		t.Fatalf("want ours, one static, one karpenter-like, a bound of 1 GPU-hour and one of a node's 2: %+v", r)
	}
	// Static: the pod arrives between two scans, waits 30 s, and the boot. Karpenter-like: a second, and the boot.
	for i, wait := range []float64{180, 210, 181} {
		n := r.Runs[i]
		if n.Served != 1 || n.Allocated != 1 || n.Added != 1 || n.Evictions+n.Repartitions != 0 || n.P50 < wait || n.P50 > wait+10 {
			t.Errorf("%s: %+v: want the pod served after %v s, on one node", n.Policy, n.Figures, wait)
		}
		// Two GPUs boot for three minutes, to a scan.
		if used := n.Paid - n.Booting - n.Empty; math.Abs(n.Booting-0.1) > 2*10/3600. || math.Abs(used-2) > 2*10/3600. {
			t.Errorf("%s: %+v: want 0.1 GPU-hours booting, 2 in use", n.Policy, n.Figures)
		}
		if n.Paid < 2*(3600+180)/3600. || n.Money != 2*n.Paid {
			t.Errorf("%s: %+v: want 2 GPUs paid from the request to the end", n.Policy, n.Figures)
		}
	}
}

// Times count from the first pod, whatever the clock. A pod that requests an instance by name gets it in a layout with
// such instances. A gang with a pod that fits no node is left out. A pod that is never served counts as pending all the
// time.
func TestTraces(t *testing.T) {
	o := options()
	now := play(t, header+"a,1000,1000,1,1000,1700000060,1700003660,\n", o)
	if then := play(t, header+"a,1000,1000,1,1000,0,3600,\n", o); !reflect.DeepEqual(now, then) {
		t.Errorf("a pod of 2023: %s, the same of 1970: %s", now, then)
	}
	for _, n := range playPods(t, o, Pod{Name: "a", Profile: "1g.10gb", Run: time.Hour}).Runs {
		if want := strings.HasSuffix(n.Policy, "whole GPUs"); want != (n.Allocated > 0.5) {
			t.Errorf("%s has allocated %v for an instance", n.Policy, n.Allocated)
		}
	}
	o.MaxNodes = 1
	r := playPods(t, o, Pod{Name: "a", GPUs: 2, Run: time.Hour, Milli: 1000, Gang: "g"}, Pod{Name: "b", GPUs: 2, Run: time.Hour, Milli: 1000, Gang: "g"},
		Pod{Name: "c", GPUs: 1, Run: time.Hour, Milli: 1000, Gang: "h"}, Pod{Name: "d", GPUs: 9, Run: time.Hour, Milli: 1000, Gang: "h"})
	if n := r.Runs[0]; n.Served != 0 || n.Pods != 2 || n.P50 < 86400 || n.Pending < 4*24 || len(r.Left) != 2 {
		t.Errorf("%v, %+v: want a gang that is pending for a day, and one left out", r.Left, n.Figures)
	}
	_, err := Play([]Pod{{Name: "a", GPUs: 1, Milli: 1000}, {Name: "b", GPUs: 1, Milli: 1000, Created: 1e9 * time.Second, Run: time.Hour}}, o, false)
	if err == nil || !strings.HasPrefix(err.Error(), "pod b ends 11574 days after the beginning") {
		t.Errorf("two clocks in one trace: %v", err)
	}
}

// No run pays less than the bound, all pods are served, and the same seed gives
// the same answer.
func TestReplay(t *testing.T) {
	text, err := os.ReadFile("testdata/pods.csv")
	require.NoError(t, err)
	text = append(text, "p29-1,1000,1000,1,1000,0,3600,0\n"...) // as a copy would be called
	o := options()
	o.Copies, o.Seeds = 2, 2
	first := play(t, string(text), o)
	if r := play(t, string(text), o); !reflect.DeepEqual(first, r) {
		t.Errorf("two replays of one seed differ:\n%s%s", first, r)
	}
	for _, n := range first.Runs {
		if n.Served != n.Pods || n.Paid < first.Bound || n.Paid < n.Allocated || n.P50 > n.P95 || n.P95 > n.P99 {
			t.Errorf("%s: %+v: want all pods served for at least %v GPU-hours", n.Policy, n.Figures, first.Bound)
		}
	}
	if first.Runs[0].Policy != "ours" || first.Runs[0].Repartitions == 0 {
		t.Errorf("ours has not repartitioned: %+v", first.Runs[0].Figures)
	}
	if first.Left["no GPU"] != 1 || first.Left["more GPUs than a node has"] != 1 {
		t.Errorf("left out: %v", first.Left)
	}
	if first.Runs[1].Policy != "ours, whole GPUs" || first.Runs[1].Repartitions != 0 {
		t.Errorf("want ours without MIG second: %+v", first.Runs[1].Figures)
	}
	all := map[string]Run{} // the first of each kind
	for _, n := range first.Runs {
		kind, _, _ := strings.Cut(n.Policy, ", ")
		if _, ok := all[kind]; !ok {
			all[kind] = n
		}
		if best := all[kind]; n.Deviation == nil || kind != "ours" && n.Served == best.Served && n.Paid < 0.9*best.Paid {
			t.Errorf("%s: %+v: want a deviation, and the first of its kind, %s, better in the first seed", n.Policy, n.Figures, best.Policy)
		}
	}
}

func TestSmallest(t *testing.T) {
	x := traced(t, header+"a,1,1,1,1000,0,1,\n", options())
	for milli, want := range map[int]string{1: "1g.10gb", 125: "1g.10gb", 126: "1g.20gb", 142: "1g.20gb", 143: "2g.20gb", 250: "2g.20gb",
		251: "3g.40gb", 428: "3g.40gb", 429: "4g.40gb", 500: "4g.40gb", 501: "", 999: ""} {
		p := x.smallest(partOf(milli, 7), partOf(milli, 8), x.table.Profiles())
		if none := p == (mig.Profile{}); none != (want == "") || !none && x.table.Name(p) != want {
			t.Errorf("%d thousandths: %q, want %q", milli, x.table.Name(p), want)
		}
	}
}

// A pod without an end still runs: until the newest time of the list.
func TestStillRuns(t *testing.T) {
	pods := read(t, header+"a,1,1,1,1000,100,,160\nb,1,1,1,1000,50,3660,\nc,1,1,1,1000,3700,,\n")
	for i, want := range []time.Duration{3540 * time.Second, 3610 * time.Second, 0} {
		if pods[i].Run != want {
			t.Errorf("%+v: want it to run for %s", pods[i], want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	requests := "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	for text, want := range map[string]string{
		"":                                          `f:1: no column "name"`,
		"name\n":                                    `f:1: no column "cpu_milli"`,
		"gang,gang," + header:                       `f:1: two columns are called "gang"`,
		header + "a,1,1,1,half,0,1,\n":              `f:2: gpu_milli: "half"`,
		header + "a,1,1,2,500,0,1,\n":               "f:2: gpu_milli: want 1000",
		header + "a,1,1,1,1000,5,1,\n":              "f:2: deletion_time: want creation",
		header + "a,1,1,0.5,500,0,1,\n":             `f:2: num_gpu: "0.5": want a whole number`,
		header + "a,1,1,1,1000,0,9,1,9\n":           "f:2: wrong number of fields",
		header + "a,1,1,0,0,0,1,\na,1,1,0,0,0,1,\n": `f:3: name: "a": want a name, each once`,
		requests:                                    "f:1: no request",
		requests + "noon,1,1\n":                     `f:2: TIMESTAMP: "noon": want a time`,
		requests + "2023-11-16 18:00:00,1,many\n":   `f:2: GeneratedTokens: "many"`,
		requests + "2023-11-16 18:00:00,1,1\n2023-11-16 17:00:00,1,1\n": "f:3: TIMESTAMP: \"2023-11-16 17:00:00\": want times in order",
	} {
		_, err := ReadPods("f", strings.NewReader(text))
		if strings.HasPrefix(text, requests) {
			_, err = ReadRequests("f", strings.NewReader(text))
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// located reports whether there is no error; one has a file and a line.
func located(t *testing.T, err error) bool {
	if err != nil && !strings.HasPrefix(err.Error(), "f:") && !strings.HasPrefix(err.Error(), "reading f:") {
		t.Errorf("%v: no file and line", err)
	}
	return err == nil
}

func FuzzReadPods(f *testing.F) {
	f.Add(header + "a,1000,1000,1,460,60,3660,90\n")
	f.Add("\ufeff" + header + "a,1,1,1,8.0,1,2,\n")
	f.Add(header + "\"a\n,")
	f.Fuzz(func(t *testing.T, text string) {
		pods, err := ReadPods("f", strings.NewReader(text))
		if !located(t, err) {
			return
		}
		for _, p := range pods {
			if p.Run < 0 || p.Created < 0 || p.GPUs < 0 || p.Milli > 1000 || p.GPUs > 0 && p.Milli == 0 || p.Name == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}

// Small pods that are scheduled first leave the large nodes that come up to the large pods for which these were requested.
func TestLargeNodesKept(t *testing.T) {
	list := header
	for i := range 8 {
		list += fmt.Sprintf("a-small-%d,1000,1000,1,1000,0,3600,\n", i)
	}
	for i := range 3 {
		list += fmt.Sprintf("large-%d,4000,4000,4,1000,0,3600,\n", i)
	}
	o := options()
	o.GPUs = []int{1, 4}
	if n := play(t, list, o).Runs[0]; n.Added != 11 || n.P99 > 200 {
		t.Errorf("%s: %+v: want 8 small nodes and 3 large ones, for which no pod waits twice", n.Policy, n.Figures)
	}
}

// A member of a gang that waits for the others gets one node, which stays for it.
func TestGangArrivesApart(t *testing.T) {
	member := Pod{GPUs: 2, Milli: 1000, Gang: "g", Run: time.Hour}
	first, last := member, member
	first.Name, last.Name, last.Created = "first", "last", 2*time.Hour
	for _, n := range playPods(t, options(), first, last).Runs {
		if n.Served != 2 || n.Added != 2 {
			t.Errorf("%s: %+v: want both served on two nodes", n.Policy, n.Figures)
		}
	}
}

// An empty node is paid for until it has been idle for as long as the pool states.
func TestIdleAfter(t *testing.T) {
	paid := func(after time.Duration) float64 {
		o := options()
		o.IdleAfter = after
		return play(t, header+"a,1,1,1,1000,0,3600,\nb,1,1,1,1000,14400,14401,\n", o).Runs[0].Paid
	}
	if long, short := paid(time.Hour), paid(20*time.Minute); long-short < 1.2 || long-short > 1.4 { // of two GPUs
		t.Errorf("paid %v GPU-hours with an hour, %v with 20 minutes", long, short)
	}
}
