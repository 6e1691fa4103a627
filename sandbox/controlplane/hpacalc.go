package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/util/feature"
	autoscalingfake "k8s.io/client-go/kubernetes/typed/autoscaling/v2/fake"
	corefake "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	defaults "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
)

// hpaCase is one line of standard input: an HPA, and the state of the world at each of its reconciliations.
type hpaCase struct {
	HPA       autoscaling.HorizontalPodAutoscaler `json:"hpa"`
	Replicas  int32                               `json:"replicas"` // spec.replicas at first
	Period    int                                 `json:"period"`   // seconds between reconciliations
	Tolerance float64                             `json:"tolerance"`
	// Window is --horizontal-pod-autoscaler-downscale-stabilization in seconds.
	Window int       `json:"window"`
	Steps  []hpaStep `json:"steps"`
}

type hpaStep struct {
	Pods []hpaPod `json:"pods"`
	// Each replaces Pods and the pods' metrics. There are as many running, ready pods p-0, p-1, … as replicas, and the
	// value of each is Each plus its number, in thousandths.
	Each    *int64      `json:"each,omitempty"`
	Metrics []hpaMetric `json:"metrics"`
}

type hpaPod struct {
	Name    string `json:"name"`
	Phase   string `json:"phase"`
	Ready   bool   `json:"ready"`
	Deleted bool   `json:"deleted"`
}

// hpaMetric is an answer of the metrics API, in thousandths. The i-th answer is for the metric m<i>.
type hpaMetric struct {
	Error  string           `json:"error,omitempty"`
	Pods   map[string]int64 `json:"pods,omitempty"`
	Values []int64          `json:"values,omitempty"`
}

// hpaDecision is what the controller did in one reconciliation.
type hpaDecision struct {
	AtMillis int64  `json:"atMillis"`
	Current  int32  `json:"current"`
	Desired  int32  `json:"desired"`
	Active   string `json:"active"` // reasons of the conditions
	Able     string `json:"able"`
	Limited  string `json:"limited"`
	ToZero   string `json:"toZero"` // status of the condition
	// Usage is the value of each metric in the HPA's status, in thousandths.
	Usage []int64 `json:"usage,omitempty"`
}

// runHPACalc reads a case from each line of standard input and writes a line with the decisions of the real
// HPA controller. It runs in a testing/synctest bubble with its own clock, so hours of scaling take
// milliseconds. Only package testing can start a bubble.
func runHPACalc() {
	out := os.Stdout
	os.Stdout = os.Stderr // package testing writes PASS
	os.Args = os.Args[:1]
	testing.Main(nil, []testing.InternalTest{{Name: "hpa-calc", F: func(t *testing.T) {
		if err := calcAll(t, bufio.NewReader(os.Stdin), json.NewEncoder(out)); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

func calcAll(t *testing.T, in *bufio.Reader, out *json.Encoder) error {
	klog.SetOutput(discard{})
	klog.LogToStderr(false)
	runtime.ErrorHandlers = nil // the default one sleeps, and keeps times across bubbles
	if err := feature.DefaultMutableFeatureGate.Set("StaleControllerConsistencyHPA=false"); err != nil {
		return fmt.Errorf("switching off the consistency store, which needs an informer's resource versions: %w", err)
	}
	decoder := json.NewDecoder(in)
	for decoder.More() {
		var c hpaCase
		if err := decoder.Decode(&c); err != nil {
			return fmt.Errorf("reading a case: %w", err)
		}
		defaults.SetDefaults_HorizontalPodAutoscaler(&c.HPA)
		var decisions []hpaDecision
		synctest.Test(t, func(t *testing.T) { decisions = calc(t.Context(), c) })
		if err := out.Encode(decisions); err != nil {
			return fmt.Errorf("writing decisions: %w", err)
		}
	}
	return nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// calc runs the controller on one HPA for one reconciliation per step.
func calc(ctx context.Context, c hpaCase) []hpaDecision {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := newHPAWorld(c, stop)
	api := w.api()
	controller := podautoscaler.NewHorizontalController(ctx, &corefake.FakeCoreV1{Fake: api}, w.scales(), &autoscalingfake.FakeAutoscalingV2{Fake: api}, w.mapper(), hpaMetrics{w},
		hpaInformer[autoscalinglisters.HorizontalPodAutoscalerLister]{first: w.hpas.List()[0], lister: autoscalinglisters.NewHorizontalPodAutoscalerLister(w.hpas)},
		hpaInformer[corelisters.PodLister]{lister: corelisters.NewPodLister(w.pods)},
		time.Duration(c.Period)*time.Second, time.Duration(c.Window)*time.Second, c.Tolerance,
		5*time.Minute, 30*time.Second)
	controller.Run(ctx, 1)
	return w.decisions
}
