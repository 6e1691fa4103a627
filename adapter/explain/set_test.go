package explain

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/internal/require"
)

func TestSet(t *testing.T) {
	w := worldOf(t, onQueue)
	spec, err := Set(w.HPA.Spec, []string{
		"minReplicas=2", "metrics[0].target.averageValue=12", "metrics[0].object.metric.name=requests_running",
		"behavior.scaleDown.stabilizationWindowSeconds=60", "behavior.scaleUp.policies[0].value=4", "behavior.scaleUp.tolerance=50m",
	})
	require.NoError(t, err)
	object := spec.Metrics[0].Object
	if *spec.MinReplicas != 2 || object.Target.AverageValue.String() != "12" || object.Metric.Name != "requests_running" ||
		*spec.Behavior.ScaleDown.StabilizationWindowSeconds != 60 || spec.Behavior.ScaleUp.Policies[0].Value != 4 ||
		spec.Behavior.ScaleUp.Tolerance.MilliValue() != 50 {
		t.Errorf("%+v", spec)
	}
	if *w.HPA.Spec.MinReplicas != 1 || w.HPA.Spec.Metrics[0].Object.Target.AverageValue.String() != "8" {
		t.Error("the spec it was given has changed")
	}
}

func TestSetRefuses(t *testing.T) {
	spec := worldOf(t, onQueue).HPA.Spec
	for change, want := range map[string]string{
		"minReplicas":                          "not of the form path=value",
		"minReplicas=9":                        "the first not above the second",
		"minReplicas=many":                     "minReplicas: is text, not a whole number",
		"maxReplicas=0":                        "minReplicas: 1, and maxReplicas 0",
		"minimumReplicas=2":                    `unknown field "minimumReplicas"`,
		"metrics[3].target.value=2":            "metrics has no element 3",
		"metrics[x].target.value=2":            "is not like metrics[0].target.value",
		"metrics[0.target=2":                   "is not like",
		"metrics[0]x=2":                        "is not like",
		"metrics[0].target.averageValue=0":     "at least a thousandth",
		"metrics[0].target.averageValue=-1":    "at least a thousandth",
		"behavior.scaleUp.policies[0].value=0": "must be positive",
		"behavior..x=0":                        "is not like",
		"maxReplicas.x=1":                      "plain value",
		"behavior.scaleDown.stabilizationWindowSeconds=9999": "between 0 and 3600",
	} {
		if _, err := Set(spec, []string{change}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--set "+change) {
			t.Errorf("%s: %v lacks %q", change, err, want)
		}
	}
}

// FuzzSet: a change is refused with a reason, or gives a spec that the arithmetic computes without a panic.
func FuzzSet(f *testing.F) {
	for _, seed := range []string{
		"minReplicas=2", "metrics[0].target.averageValue=12", "metrics[0][1]=x", "behavior=null", "metrics=[]", "metrics[0]=null",
		"behavior.scaleUp.policies[0]={type: Pods, value: 1, periodSeconds: 1}", "metrics[0].type=Pods", "behavior.scaleUp.selectPolicy=null", "behavior.scaleUp.policies=[]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, change string) {
		spec, err := Set(worldOf(t, onQueue).HPA.Spec, []string{change})
		if err != nil {
			return
		}
		spec = hpa.Defaulted(spec)
		c := hpa.Controller{Tolerance: .1, Window: hpa.DefaultWindow}
		d := c.Reconcile(hpa.Situation{Now: end, Spec: spec, Replicas: 2, StatusReplicas: 2, Pods: ready(2), Answers: func() []hpa.Answer {
			return []hpa.Answer{{Values: []int64{30_000}, Pods: map[string]int64{"p-0": 1}}}
		}})
		if d.Error == nil && len(d.Proposals) > 0 && (d.Desired < *spec.MinReplicas || d.Desired > spec.MaxReplicas) {
			t.Errorf("%s: %d replicas", change, d.Desired)
		}
	})
}

func TestReadHPA(t *testing.T) {
	const head = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
	h, err := ReadHPA("hpa.yaml", []byte(head+"spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: x}}"))
	if err != nil || h.Spec.MaxReplicas != 3 {
		t.Error(h, err)
	}
	for text, want := range map[string]string{
		"kind: Deployment":                              "hpa.yaml:1: is Deployment of nothing",
		head + "spec: {maxReplica: 3}":                  `hpa.yaml:3: spec.maxReplica: unknown field "maxReplica"`,
		head + "spec: {minReplicas: 4, maxReplicas: 3}": "hpa.yaml:3: spec.minReplicas: 4, and maxReplicas 3",
		head + "spec:\n  minReplicas: many":             "hpa.yaml:4: spec.minReplicas: is text, not a whole number",
	} {
		if _, err := ReadHPA("hpa.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
