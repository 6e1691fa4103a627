package promfault

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSamples(t *testing.T) {
	one := func(pod string) Sample {
		return Sample{Name: "work", Labels: map[string]string{"namespace": "n", "pod": pod}, Value: 10}
	}
	samples := []Sample{one("b"), one("a"), {Name: "work", Labels: map[string]string{"namespace": "other", "pod": "z"}, Value: 10}}
	for how, want := range map[Samples]string{
		True:        "a=10 b=10 z=10",
		NaN:         "a=NaN b=NaN z=NaN",
		HalfNaN:     "a=10 b=NaN z=10",
		Infinite:    "a=+Inf b=+Inf z=+Inf",
		MinusInf:    "a=-Inf b=-Inf z=-Inf",
		Huge:        "a=1e+300 b=1e+300 z=1e+300",
		Negative:    "a=-10 b=-10 z=-10",
		Gone:        "",
		HalfGone:    "a=10 z=10",
		LabelLost:   "=10 =10 =10",
		Doubled:     "a=10 a=10 b=10 b=10 z=10 z=10",
		DoubledZero: "a=10 a=0 b=10 b=0 z=10 z=0",
	} {
		var got []string
		lines := map[string]bool{}
		p := NewPage(func(context.Context) ([]Sample, error) { return samples, nil })
		p.Serve(how)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(w.Body.String()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			lines[name] = true
			_, pod, _ := strings.Cut(name, `pod="`)
			pod, _, _ = strings.Cut(pod, `"`)
			got = append(got, pod+"="+value)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", how, text, want)
		}
		if len(lines) != len(got) {
			t.Errorf("%s: a series is twice on the page: %v", how, lines)
		}
	}
	if samples[0].Value != 10 || len(samples[0].Labels) != 2 {
		t.Errorf("the source has changed: %v", samples[0])
	}
}
