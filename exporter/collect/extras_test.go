package collect

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func TestPodLabels(t *testing.T) {
	for _, c := range []struct {
		uid    string
		labels map[string]string
		want   string
	}{
		{"", nil, ""},
		{"u", nil, `pod_uid="u"`},
		{"", map[string]string{"app.kubernetes.io/name": "x"}, `app_kubernetes_io_name="x"`},
		{"u", map[string]string{"pod_uid": "liar", "gpu": "1", "Hostname": "h"}, `pod_label_Hostname="h",pod_label_gpu="1",pod_label_pod_uid="liar",pod_uid="u"`},
		{"", map[string]string{"a.b": "1", "a-b": "2", "a_b": "3"}, `a_b="2",a_b_conflict1="1",a_b_conflict2="3"`},
		{"", map[string]string{"a-b": "1", "a.b": "2", "a_b_conflict1": "3"}, `a_b="1",a_b_conflict1="2",a_b_conflict1_conflict1="3"`},
		{"", map[string]string{"gpu": "1", "pod_label_gpu": "2"}, `pod_label_gpu="1",pod_label_gpu_conflict1="2"`},
		{"", map[string]string{"1a": "x", "__name__": "y", "DCGM_FI_DEV_SERIAL": "z"}, `_1a="x",pod_label_DCGM_FI_DEV_SERIAL="z",pod_label___name__="y"`},
		{"", map[string]string{"q": `a"b\c`}, `q="a\"b\\c"`},
	} {
		if got := PodLabels(c.uid, c.labels); got != c.want {
			t.Errorf("%v: %s, want %s", c.labels, got, c.want)
		}
	}
}

// Whatever labels a pod has, the scrape is one, and each label stands once.
func FuzzPodLabels(f *testing.F) {
	f.Add("gpu", "1", "g.pu", "2")
	f.Add("a-b", "\"", "a.b", "\n")
	f.Add("", "x", "__name__", "y")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		text := PodLabels("uid", map[string]string{name1: value1, name2: value2})
		b := appendText(appendLabel(nil, "gpu", "0"), text)
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader("m{" + string(b) + "} 1\n"))
		if err != nil || !utf8.Valid(b) {
			t.Fatalf("%q: %v", b, err)
		}
		seen := map[string]bool{}
		for _, l := range families["m"].GetMetric()[0].GetLabel() {
			if seen[l.GetName()] || strings.HasPrefix(l.GetName(), "__") {
				t.Fatalf("%q: label %s", b, l.GetName())
			}
			seen[l.GetName()] = true
		}
	})
}

// A change of a pod's labels shows on the DCGM series and leaves ours alone.
func TestPodLabelsChange(t *testing.T) {
	c := compiler()
	r := &Reading{Taken: start, Entities: []Entity{card(0.5, start)}}
	page := func(label string) string {
		return text(c.Compile(r, Attribution{Taken: start, Holders: [][]Holder{{{"ns", "p", "c"}}},
			Extras: Extras{Pods: map[PodName]string{{"ns", "p"}: label}}}), start)
	}
	before, after := page(`app="a"`), page(`app="b"`)
	if !strings.Contains(before, `pod="p",app="a"} 100`) || !strings.Contains(after, `pod="p",app="b"} 100`) {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if strings.Count(before, `app="a"`) != 1 {
		t.Errorf("a pod's label stands on more than its DCGM series:\n%s", before)
	}
}
