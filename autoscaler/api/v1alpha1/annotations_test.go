package v1alpha1

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 123, time.UTC)

func annotated(key, value string) metav1.Object {
	return &metav1.ObjectMeta{Annotations: map[string]string{key: value}}
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
		"{}":                                 "no start",
		`{"started":"2026-11-21T09:00:00Z"}`: "no deadline",
		`{"started":"2026-11-21T09:00:00Z","deadline":"2026-11-21T08:00:00Z"}`: "before the start",
		`{"started":9}`: "Time.UnmarshalJSON",
	} {
		if _, ok, err := DrainOf(annotated(DrainAnnotation, text)); !ok || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), DrainAnnotation) {
			t.Errorf("%q: %v, %v; want %q", text, ok, err, want)
		}
	}
}

func TestEvictFrom(t *testing.T) {
	at, err := EvictFrom(annotated(EvictFromAnnotation, "2026-11-21T10:00:00+01:00"))
	if want := start.Truncate(time.Second); err != nil || !at.Equal(want) {
		t.Errorf("%s, %v; want %s", at, err, want)
	}
	if at, err := EvictFrom(&metav1.ObjectMeta{}); err != nil || !at.IsZero() {
		t.Errorf("no annotation: %s, %v", at, err)
	}
	for _, text := range []string{"", "soon", "2026-11-21", "1763715600"} {
		if _, err := EvictFrom(annotated(EvictFromAnnotation, text)); err == nil || !strings.Contains(err.Error(), EvictFromAnnotation) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSafeToEvict(t *testing.T) {
	for _, key := range []string{SafeToEvictAnnotation, OtherSafeToEvictAnnotation} {
		if SafeToEvict(annotated(key, "false")) || !SafeToEvict(annotated(key, "true")) {
			t.Errorf("%s is not believed", key)
		}
	}
	if !SafeToEvict(&metav1.ObjectMeta{}) {
		t.Error("a pod that says nothing may be moved")
	}
}

func FuzzParseDrain(f *testing.F) {
	f.Add(Drain{Started: start, Deadline: start, Reason: "x"}.String())
	f.Add(`{"started":"0001-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDrain(text)
		if err != nil {
			return
		}
		back, err := ParseDrain(d.String())
		if err != nil || !back.Started.Equal(d.Started) || !back.Deadline.Equal(d.Deadline) || back.Reason != d.Reason {
			t.Errorf("%+v reads back as %+v, %v", d, back, err)
		}
	})
}
