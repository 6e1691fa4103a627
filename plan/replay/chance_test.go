package replay

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Random choices follow from the seed, all pods are served nevertheless, and what is lost is counted.
func TestChance(t *testing.T) {
	text, err := os.ReadFile("testdata/pods.csv")
	require.NoError(t, err)
	o := options()
	o.Seeds = 2
	calm := play(t, string(text), o)
	o.Chance = Chance{Gangs: 0.2, GangSize: 2, Evictable: 0.5, Interruptions: 0.3, FailRepartition: 0.3, FailBoot: 0.2}
	rough := play(t, string(text), o)
	for _, n := range rough.Runs {
		if n.Served != n.Pods || n.Paid < rough.Bound || n.Pending <= 0 {
			t.Errorf("%s: %+v: want all pods served, and some pending", n.Policy, n.Figures)
		}
		if n.Evictions == 0 || n.Pods <= calm.Runs[0].Pods || n.Deviation.Paid == 0 {
			t.Errorf("%s: %+v: want interruptions, gangs and seeds that differ", n.Policy, n.Figures)
		}
	}
	if n := calm.Runs[0]; n.Evictions != 0 || n.Deviation.Paid != 0 {
		t.Errorf("%s: %+v: want no chance where none was asked for", n.Policy, n.Figures)
	}
}

// A node that is interrupted has its pod for two minutes more, not until the next plan.
func TestInterruption(t *testing.T) {
	o := options()
	o.Interruptions, o.Seeds = 1, 1
	var first, run float64
	for second := 0.; second <= run; o.Seed++ { // a seed whose second node lives longer than the pod runs
		lives := rand.New(rand.NewPCG(o.Seed+1, 2))
		first, second = lives.ExpFloat64(), lives.ExpFloat64()
		run = first + 0.1
	}
	n := play(t, fmt.Sprintf("%sa,1,1,1,1000,0,%.0f,\n", header, run*3600), o).Runs[0]
	if want := first + 1./30 + run; n.Evictions != 1 || math.Abs(n.Allocated-want)*3600 > 1 {
		t.Errorf("%+v: want %v GPU-hours allocated: the first node lives for %v", n.Figures, want, first)
	}
}

// A gang's pods run all at once: if the second arrives ten minutes later, both wait.
func TestGangWaits(t *testing.T) {
	list := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,gang\na,1,1,1,1000,0,3600,g\nb,1,1,1,1000,600,4200,g\n"
	if n := play(t, list, options()).Runs[0]; n.Served != 2 || n.P99 < 600 {
		t.Errorf("%s: %+v: want both served, the first after the second has come", n.Policy, n.Figures)
	}
}

// A replica leaves at its time, bound or not, and its pending time is counted.
func TestReplicasLeave(t *testing.T) {
	r := playPods(t, options(), Pod{Name: "short", GPUs: 1, Milli: 1000, Replica: true, Run: time.Minute}, Pod{Name: "long", GPUs: 1, Milli: 1000, Replica: true, Run: time.Hour})
	n := r.Runs[0]
	if n.Pods != 2 || n.Served != 1 || n.P50 != 60 || n.P99 < 180 || math.Abs(n.Allocated-57./60) > 0.01 {
		t.Errorf("%s: %+v: want one gone before its node came after 3 minutes", n.Policy, n.Figures)
	}
	if r.Bound != 0 || r.BoundAtOnce != 2 {
		t.Errorf("bounds %v and %v, want 0, since a replica that waits runs less, and a node's 2", r.Bound, r.BoundAtOnce)
	}
}

// Nodes of several sizes: the bound is a multiple of their greatest common divisor.
func TestSizes(t *testing.T) {
	o := options()
	o.GPUs = []int{2, 4}
	r := play(t, header+"a,1,1,1,1000,0,3600,\nb,1,1,4,1000,7200,10800,\n", o)
	if r.BoundAtOnce != 2+4 {
		t.Errorf("%v GPU-hours, want 2 and 4 for an hour each", r.BoundAtOnce)
	}
	for _, n := range r.Runs {
		if n.PeakGPUs != 4 || n.Added != 2 {
			t.Errorf("%s: %+v: want a node of each size, one after the other", n.Policy, n.Figures)
		}
	}
}

func TestReplicas(t *testing.T) {
	text := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.5,0,300\n2023-11-16 18:59:59.9,100,1\n"
	requests, err := ReadRequests("f", strings.NewReader(text))
	if err != nil || len(requests) != 2 || requests[1].At != 59*time.Minute+59400*time.Millisecond {
		t.Fatalf("%v, %v", requests, err)
	}
	s := Serving{Days: 1, Scale: 10, Night: 1, Prefill: 100, Decode: 10, PerReplica: 2, Milli: 1000}
	pods, err := Replicas(requests, s)
	require.NoError(t, err)
	// Each hour has 30 s with one request in flight, ten times as many, and two for a replica. So there are five
	// replicas from the first period on, limited to four more than exist, and for five minutes after the last one.
	if len(pods) != 1+4*24 {
		t.Errorf("%d replicas in a day, want one all day and four an hour", len(pods))
	}
	for _, p := range pods[1:] {
		if !p.Replica || p.Run < 5*time.Minute || p.Run > 6*time.Minute {
			t.Errorf("%+v: want it to stay for the five minutes that a scale down waits", p)
		}
	}
	if pods[0].Run != 24*time.Hour {
		t.Errorf("%+v: want the first all day", pods[0])
	}
}

// FuzzReplicas makes replicas of whatever can be read.
func FuzzReplicas(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
	f.Fuzz(func(t *testing.T, text string) {
		if requests, err := ReadRequests("f", strings.NewReader(text)); located(t, err) {
			_, err = Replicas(requests, Serving{Days: 0.01, Scale: 1, Night: 1, Prefill: 1, Decode: 1, PerReplica: 1e6, Milli: 1})
			require.NoError(t, err)
		}
	})
}

// The picture is XML, has a panel for each policy, and escapes what it shows.
func TestWriteSVG(t *testing.T) {
	r := play(t, header+"a,1000,1000,1,1000,60,3660,60\n", options())
	var b bytes.Buffer
	require.NoError(t, r.WriteSVG(&b, "a <b> & c"))
	require.NoError(t, xml.Unmarshal(b.Bytes(), new(struct{})))
	for _, want := range []string{"a &lt;b&gt; &amp; c", "ours: ", "static, whole GPUs: ", "karpenter-like, whole GPUs: ", "hours since the beginning", "GPUs", "paid for"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the picture: %s", want, &b)
		}
	}
}
