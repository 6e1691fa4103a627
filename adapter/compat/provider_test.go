package compat

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

func pods(metric string) cma.CustomMetricInfo {
	return cma.CustomMetricInfo{GroupResource: core("pods"), Namespaced: true, Metric: metric}
}

// other is a provider of one signal.
type other struct{ cma.MetricsProvider }

var errOther = errors.New("of the other")

func (other) GetMetricByName(context.Context, types.NamespacedName, cma.CustomMetricInfo, k8slabels.Selector) (*custom_metrics.MetricValue, error) {
	return nil, errOther
}

func (other) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	return []cma.ExternalMetricInfo{{Metric: "gpu_busy"}, {Metric: "backlog"}}
}

func (other) ListAllMetrics() []cma.CustomMetricInfo {
	return []cma.CustomMetricInfo{pods("gpu_busy"), pods("queue")}
}

func TestWhatTheFileDoesNotDeclareIsTheOthers(t *testing.T) {
	f, err := Parse("pa.yaml", []byte("rules: [{seriesQuery: queue, resources: {template: '<<.Resource>>'}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'}]\n"+
		"externalRules: [{seriesQuery: queue, name: {as: backlog}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}]"))
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{t: t, data: load(t, world), questions: map[string]bool{}, answers: map[string]*signal.Table{}}
	p := New(Options{}, f, Sources{Watcher: s, Lister: s, Pods: s, Objects: objects(t), Mapper: kinds()}, slog.New(slog.DiscardHandler))
	own := len(p.ListAllMetrics())
	p.Other = other{}
	asked := func(metric string) string {
		if _, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web-1"}, pods(metric), k8slabels.Everything()); errors.Is(err, errOther) {
			return "other"
		}
		return "file"
	}
	if _, unsure := p.Has("backlog"); unsure == nil {
		t.Error("before the first listing the file's metrics are known")
	}
	if got := asked("gpu_busy") + " " + asked("queue"); got != "other file" || own != 0 {
		t.Errorf("before the first listing: %s, %d metrics", got, own)
	}
	p.relist(t.Context())
	if got := asked("gpu_busy") + " " + asked("queue") + " " + asked("nonsense"); got != "other file file" {
		t.Errorf("%s", got)
	}
	has := func(metric string) bool {
		is, unsure := p.Has(metric)
		return is && unsure == nil
	}
	if n := len(p.ListAllExternalMetrics()); n != 2 || !has("backlog") || has("queue") {
		t.Errorf("%d external metrics", n)
	}
	all := p.ListAllMetrics()
	p.Other = nil
	if n, want := len(all), len(p.ListAllMetrics())+1; n != want {
		t.Errorf("%d custom metrics, want %d", n, want)
	}
}

func TestOptions(t *testing.T) {
	err := Options{RelistInterval: time.Hour, SeriesAge: time.Minute, MaxAge: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "seriesAge: must not be shorter") || !strings.Contains(err.Error(), "maxAge: must not be negative") {
		t.Errorf("%v", err)
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
