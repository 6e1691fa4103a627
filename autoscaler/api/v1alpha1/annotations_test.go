package v1alpha1

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 123, time.UTC)

func annotated(key, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
}

func TestDrainReadsBack(t *testing.T) {
	d := Drain{Started: start, Deadline: start.Add(time.Minute), Reason: "NodeUnderused"}
	got, ok, err := DrainOf(annotated(DrainAnnotation, d.String()))
	if err != nil || !ok || got != d {
		t.Errorf("%+v, %v, %v; want %+v", got, ok, err, d)
	}
	if _, ok, err := DrainOf(&metav1.ObjectMeta{}); ok || err != nil {
		t.Errorf("no annotation: %v, %v", ok, err)
	}
	for text, want := range map[string]string{
		"":                                   "unexpected end",
		"{}":                                 "the start is missing",
		`{"started":"2026-11-21T09:00:00Z"}`: "the deadline is missing",
		`{"started":"2026-11-21T09:00:00Z","deadline":"2026-11-21T08:00:00Z"}`: "before the start",
		`{"started":9}`: "Time.UnmarshalJSON",
	} {
		if _, ok, err := DrainOf(annotated(DrainAnnotation, text)); !ok || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), DrainAnnotation) {
			t.Errorf("%q: %v, %v; want %q", text, ok, err, want)
		}
	}
}

func TestEvictFrom(t *testing.T) {
	at, err := EvictFrom(annotated(EvictFromAnnotation, "2026-11-21T10:00:00+01:00"), start)
	if want := start.Truncate(time.Second); err != nil || !at.Equal(want) {
		t.Errorf("%s, %v; want %s", at, err, want)
	}
	if at, err := EvictFrom(&corev1.Pod{}, start); err != nil || !at.IsZero() {
		t.Errorf("no annotation: %s, %v", at, err)
	}
	for _, text := range []string{"", "soon", "2026-11-21", "1763715600"} {
		if _, err := EvictFrom(annotated(EvictFromAnnotation, text), start); err == nil || !strings.Contains(err.Error(), EvictFromAnnotation) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestCheckpointEvery: windows are multiples of the duration from the pod's start.
func TestCheckpointEvery(t *testing.T) {
	const m = time.Minute
	for name, c := range map[string]struct {
		every, from string
		age, want   time.Duration // of the pod; from its start
		err         string
	}{
		"before the first":                {"30m", "", 10 * m, 30 * m, ""},
		"at it":                           {"30m", "", 30 * m, 30 * m, ""},
		"within its window":               {"30m", "", 33 * m, 30 * m, ""},
		"after it":                        {"30m", "", 34 * m, 60 * m, ""},
		"much later":                      {"30m", "", 100*30*m + 1*m, 100 * 30 * m, ""},
		"a short one has a minute":        {"5m", "", 11 * m, 10 * m, ""},
		"and no more":                     {"5m", "", 11*m + time.Second, 15 * m, ""},
		"evict-from is later":             {"30m", "2026-11-21T09:40:01Z", 31 * m, 60 * m, ""},
		"evict-from is within the window": {"30m", "2026-11-21T09:32:01Z", 31 * m, 32*m + time.Second, ""},
		"evict-from is over":              {"30m", "2026-11-21T09:10:00Z", 20 * m, 30 * m, ""},
		"no duration":                     {"often", "", 0, 0, "want a duration"},
		"empty":                           {"", "", 0, 0, "want a duration"},
		"too short":                       {"1m", "", 0, 0, "want a duration of 5m0s or more"},
		"below zero":                      {"-30m", "", 0, 0, "want a duration"},
	} {
		began := start.Truncate(time.Second)
		p := annotated(CheckpointEveryAnnotation, c.every)
		p.Spec.NodeName, p.Status.StartTime = "n", &metav1.Time{Time: began}
		if c.from != "" {
			p.Annotations[EvictFromAnnotation] = c.from
		}
		got, err := EvictFrom(p, began.Add(c.age))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), CheckpointEveryAnnotation) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || got.Sub(began) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got.Sub(began), err, c.want)
		}
	}
	p := annotated(CheckpointEveryAnnotation, "30m")
	if got, err := EvictFrom(p, start); err != nil || !got.IsZero() {
		t.Errorf("a pending pod: %s, %v", got, err)
	}
	p.Spec.NodeName = "n"
	if _, err := EvictFrom(p, start); err == nil {
		t.Error("a pod that has not started has not saved its work")
	}
}

// TestPinned: the reason names the annotation, or the missing controller.
func TestPinned(t *testing.T) {
	const bare = "no controller would create it again"
	for _, key := range []string{SafeToEvictAnnotation, OtherSafeToEvictAnnotation} {
		for value, want := range map[string]string{"false": "annotation " + key + " is false", "on-completion": "annotation " + key + " is on-completion", "true": "", "x": bare} {
			if got := Pinned(annotated(key, value)); got != want {
				t.Errorf("%s=%s: %q, want %q", key, value, got, want)
			}
		}
	}
	p := annotated("x", "false")
	p.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true)}}
	if got := Pinned(p); got != "" {
		t.Errorf("a pod with a controller: %q", got)
	}
}

// TestDoNotDisrupt: Karpenter's annotation protects a pod with "true", or with a duration from its
// start; a node with "true" only.
func TestDoNotDisrupt(t *testing.T) {
	for value, want := range map[string]struct {
		safe bool
		from time.Time
	}{
		"true": {false, time.Time{}}, "false": {true, time.Time{}}, "yes": {true, time.Time{}}, "-5m": {true, time.Time{}}, "0s": {true, time.Time{}},
		"1h": {true, start.Add(time.Hour)},
	} {
		p := annotated(DoNotDisruptAnnotation, value)
		p.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true)}}
		p.Spec.NodeName, p.Status.StartTime = "n", &metav1.Time{Time: start}
		from, err := EvictFrom(p, start)
		if err != nil || !from.Equal(want.from) || (Pinned(p) == "") != want.safe {
			t.Errorf("%q: pinned %q, from %s, %v; want %+v", value, Pinned(p), from, err, want)
		}
		if got := ScaleDownDisabled(p); got != (value == "true") {
			t.Errorf("a node with %q: disabled %v", value, got)
		}
	}
	p := annotated(DoNotDisruptAnnotation, "1h")
	if from, err := EvictFrom(p, start); err != nil || !from.IsZero() {
		t.Errorf("a pending pod: %s, %v", from, err)
	}
	p.Spec.NodeName = "n"
	if _, err := EvictFrom(p, start); err == nil {
		t.Error("a pod that has not started is protected")
	}
	p.Status.StartTime = &metav1.Time{Time: start}
	later := start.Add(2 * time.Hour).Truncate(time.Second)
	p.Annotations[EvictFromAnnotation] = later.Format(time.RFC3339)
	if from, err := EvictFrom(p, start); err != nil || !from.Equal(later) {
		t.Errorf("from %s, %v; want the later one, %s", from, err, later)
	}
}

func TestHasLocalStorage(t *testing.T) {
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	disk := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	shm := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
	host := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	for name, c := range map[string]struct {
		volumes    []corev1.Volume
		key, value string
		want       bool
	}{
		"none":             {want: false},
		"claim and memory": {volumes: []corev1.Volume{volume("a", claim), volume("b", shm)}},
		"emptyDir":         {volumes: []corev1.Volume{volume("a", claim), volume("b", disk)}, want: true},
		"hostPath":         {volumes: []corev1.Volume{volume("a", host)}, want: true},
		"safe to evict":    {volumes: []corev1.Volume{volume("a", disk)}, key: SafeToEvictAnnotation, value: "true"},
		"the other's":      {volumes: []corev1.Volume{volume("a", disk)}, key: OtherSafeToEvictAnnotation, value: "true"},
		"its volumes":      {volumes: []corev1.Volume{volume("a", disk), volume("b", host)}, key: LocalVolumesAnnotation, value: "a,b"},
		"one of them":      {volumes: []corev1.Volume{volume("a", disk), volume("b", host)}, key: LocalVolumesAnnotation, value: "a", want: true},
	} {
		p := annotated(c.key, c.value)
		p.Spec.Volumes = c.volumes
		if got := HasLocalStorage(p); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func FuzzParseDrain(f *testing.F) {
	f.Add(Drain{Started: start, Deadline: start, Reason: "x"}.String())
	f.Add(`{"started":"0001-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDrain(text)
		if err != nil {
			return
		}
		back, err := parseDrain(d.String())
		if err != nil || !back.Started.Equal(d.Started) || !back.Deadline.Equal(d.Deadline) || back.Reason != d.Reason {
			t.Errorf("%+v reads back as %+v, %v", d, back, err)
		}
	})
}
