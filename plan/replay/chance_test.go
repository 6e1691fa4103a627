package replay

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Chance is drawn from the seed, all pods are served all the same, and what is lost is
// counted.
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

// A gang's pods run all at once: where the second comes ten minutes later, both wait.
func TestGangWaits(t *testing.T) {
	list := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,gang\n" +
		"a,1,1,1,1000,0,3600,g\nb,1,1,1,1000,600,4200,g\n"
	pods := read(t, list)
	o := options()
	r, err := Play(pods, o, false)
	require.NoError(t, err)
	if n := r.Runs[0]; n.Served != 2 || n.P99 < 600 {
		t.Errorf("%s: %+v: want both served, the first after the second has come", n.Policy, n.Figures)
	}
}

// A replica leaves at its time, bound or not, and what waits is counted.
func TestReplicasLeave(t *testing.T) {
	pods := []Pod{{Name: "short", GPUs: 1, Milli: 1000, Replica: true, Run: time.Minute}, {Name: "long", GPUs: 1, Milli: 1000, Replica: true, Run: time.Hour}}
	r, err := Play(pods, options(), false)
	require.NoError(t, err)
	n := r.Runs[0]
	if n.Pods != 2 || n.Served != 1 || n.P50 != 60 || n.P99 < 180 || math.Abs(n.Allocated-57./60) > 0.01 {
		t.Errorf("%s: %+v: want one gone before its node came after 3 minutes", n.Policy, n.Figures)
	}
	if r.Bound != 0 || r.BoundAtOnce != 2 {
		t.Errorf("bounds %v and %v, want 0, since a replica that waits runs less, and a node's 2", r.Bound, r.BoundAtOnce)
	}
}

// Nodes of several sizes: the bound is a multiple of what divides them all.
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
	// Each hour has 30 s with one request in flight, ten times as many, two a replica:
	// five from the first period on, limited to four more than there are, and for five
	// minutes after the last.
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
	s.Milli = 0
	if _, err := Replicas(requests, s); err == nil || !strings.Contains(err.Error(), "0 thousandths") {
		t.Errorf("%v", err)
	}
}

func TestReadRequestsErrors(t *testing.T) {
	head := "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	for text, want := range map[string]string{
		head:                                  "f:1: no request",
		head + "noon,1,1\n":                   `f:2: TIMESTAMP: "noon": want a time`,
		head + "2023-11-16 18:00:00,1,many\n": `f:2: GeneratedTokens: "many"`,
		head + "2023-11-16 18:00:00,1,1\n2023-11-16 17:00:00,1,1\n": "f:3: TIMESTAMP: \"2023-11-16 17:00:00\": want times in order",
	} {
		if _, err := ReadRequests("f", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadRequests(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
	f.Fuzz(func(t *testing.T, text string) {
		requests, err := ReadRequests("f", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") && !strings.HasPrefix(err.Error(), "reading f:") {
				t.Errorf("%v: no file and line", err)
			}
			return
		}
		_, err = Replicas(requests, Serving{Days: 0.01, Scale: 1, Night: 1, Prefill: 1, Decode: 1, PerReplica: 1e6, Milli: 1})
		require.NoError(t, err)
	})
}

// The picture is XML, has a panel for each policy, and escapes what it shows.
func TestWriteSVG(t *testing.T) {
	r := play(t, header+"a,1000,1000,1,1000,60,3660,60\n", options())
	var b bytes.Buffer
	require.NoError(t, r.WriteSVG(&b, "a <b> & c"))
	d := xml.NewDecoder(&b)
	texts := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if c, ok := token.(xml.CharData); ok {
			texts += string(c)
		}
	}
	for _, want := range []string{"a <b> & c", "ours: ", "static, whole GPUs: ", "karpenter-like, whole GPUs: ", "hours since the first pod", "GPUs", "paid for"} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in the picture: %s", want, texts)
		}
	}
}
