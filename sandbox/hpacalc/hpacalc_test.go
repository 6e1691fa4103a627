package hpacalc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

var (
	cases = flag.Int("cases", 0, "random cases to compare; 0: 2000 in make test-all, 200 in make test")
	seed  = flag.Int64("seed", 1, "of the random cases in make test")
)

// TestSameAsTheController tests the promise of adapter/explain/hpa: it computes the same replicas, conditions
// and usage as the controller, in single decisions and over time.
func TestSameAsTheController(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs the control plane's binary: run without -short")
	}
	if *cases == 0 {
		*cases = 200
		if testall.Enabled() {
			*cases = 2000
		}
	}
	d := dice{rand.New(rand.NewPCG(uint64(testall.Seed(t, *seed)), 0))}
	all := make([]testCase, *cases)
	for i := range all {
		all[i] = d.testCase()
	}
	decisions, different := 0, 0
	for i, want := range ask(t, all) {
		got := ours(t, all[i], want)
		decisions += len(got)
		if where := differ(got, want); where >= 0 {
			if different++; different <= 3 {
				raw, _ := json.Marshal(all[i])
				t.Errorf("case %d, decision %d:\ngot  %+v\nwant %+v\nof %s", i, where, got[where], want[where], raw)
			}
		}
	}
	if different > 0 {
		t.Errorf("%d of %d cases differ", different, len(all))
	}
	t.Logf("%d cases, %d decisions", len(all), decisions)
}

// ask sends all cases to the real controller.
func ask(t *testing.T, all []testCase) [][]decision {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	paths, err := build.ControlPlane(ctx, build.Options{})
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, paths.Program("controlplane"), "hpa-calc")
	var in, stderr bytes.Buffer
	for _, c := range all {
		require.NoError(t, json.NewEncoder(&in).Encode(c))
	}
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("hpa-calc: %v\n%s", err, stderr.Bytes()[:min(2000, stderr.Len())])
	}
	answers := make([][]decision, 0, len(all))
	decoder := json.NewDecoder(bytes.NewReader(out))
	for range all {
		var a []decision
		if err := decoder.Decode(&a); err != nil {
			t.Fatalf("after %d answers: %v", len(answers), err)
		}
		answers = append(answers, a)
	}
	return answers
}

// ours decides the same case at the same times as the controller.
func ours(t *testing.T, c testCase, want []decision) []decision {
	if len(want) != len(c.Steps) {
		t.Fatalf("%d decisions for %d steps", len(want), len(c.Steps))
	}
	ctl := hpa.Controller{Tolerance: c.Tolerance, Window: time.Duration(c.Window) * time.Second}
	zero := ""
	for _, condition := range c.HPA.Status.Conditions {
		zero = string(condition.Status)
		ctl.ScaledToZero = condition.Status == core.ConditionTrue
	}
	spec := hpa.Defaulted(c.HPA.Spec)
	replicas := c.Replicas
	var got []decision
	for i, s := range c.Steps {
		d := ctl.Reconcile(hpa.Situation{
			Now: time.UnixMilli(want[i].AtMillis), Spec: spec, Replicas: replicas, StatusReplicas: replicas,
			Pods: pods(s, replicas), Answers: func() []hpa.Answer { return answers(s, spec, replicas) },
		})
		o := decision{AtMillis: want[i].AtMillis, Current: replicas, Desired: d.Desired, Active: ctl.Active, Limited: ctl.Limited}
		if d.Desired != replicas {
			zero = "False"
			if ctl.ScaledToZero {
				zero = "True"
			}
		}
		o.ToZero = zero
		for _, p := range d.Proposals {
			if p.Error != nil {
				p.Usage = -1
			}
			o.Usage = append(o.Usage, p.Usage)
		}
		if replicas == 0 {
			// The controller divides by zero in this case.
			o.Usage, want[i].Usage = nil, nil
		}
		got = append(got, o)
		replicas = d.Desired
	}
	return got
}

func pods(s step, replicas int32) []hpa.Pod {
	var all []hpa.Pod
	if s.Each != nil {
		for i := range replicas {
			all = append(all, hpa.Pod{Name: fmt.Sprintf("p-%d", i), Phase: core.PodRunning, Ready: true})
		}
		return all
	}
	for _, p := range s.Pods {
		all = append(all, hpa.Pod{Name: p.Name, Phase: core.PodPhase(p.Phase), Ready: p.Ready, Deleted: p.Deleted})
	}
	return all
}

func answers(s step, spec autoscaling.HorizontalPodAutoscalerSpec, replicas int32) []hpa.Answer {
	var all []hpa.Answer
	for i, m := range s.Metrics {
		a := hpa.Answer{Pods: m.Pods, Values: m.Values}
		if m.Error != "" {
			a.Error = errors.New(m.Error)
		}
		if s.Each != nil && spec.Metrics[i].Type == autoscaling.PodsMetricSourceType {
			a.Pods = map[string]int64{}
			for n := range replicas {
				a.Pods[fmt.Sprintf("p-%d", n)] = *s.Each + int64(n)
			}
		}
		all = append(all, a)
	}
	return all
}

// differ returns the first decision that differs, or -1.
func differ(got, want []decision) int {
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			return i
		}
	}
	return -1
}
