package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// ForecastConfig is the series from which a workload's demand is forecast.
type ForecastConfig struct {
	Namespace string `json:"namespace"`
	// Kind is Deployment or StatefulSet; Name is the object's.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Query is PromQL with one series: queue depth, requests per second, or
	// replicas. PerReplica is how much of it one replica carries.
	Query      string  `json:"query"`
	PerReplica float64 `json:"perReplica"`
	// Horizon is how far ahead the forecast is, best the time a node takes to be ready;
	// 0s stands for 10m. History is how far back the series is read, 0s stands for
	// 168h; Step is the time between values, 0s stands for 1m.
	Horizon metav1.Duration `json:"horizon"`
	History metav1.Duration `json:"history"`
	Step    metav1.Duration `json:"step"`
}

// Defaults and bounds of a forecast.
const (
	defaultHorizon = 10 * time.Minute
	defaultHistory = 7 * 24 * time.Hour
	defaultStep    = time.Minute
	maxSteps       = 10_999 // Prometheus' bound on a range query is 11,000 points
	// forecastEvery is the interval between forecasts; nodes take minutes.
	forecastEvery = 30 * time.Second
)

func (f ForecastConfig) series() observe.Series {
	return observe.Series{
		Namespace: f.Namespace, Kind: f.Kind, Name: f.Name, Query: f.Query, PerReplica: f.PerReplica,
		Horizon: cmp.Or(f.Horizon.Duration, defaultHorizon), History: cmp.Or(f.History.Duration, defaultHistory), Step: cmp.Or(f.Step.Duration, defaultStep),
	}
}

func validateForecasts(all []ForecastConfig, url string, p *problems) {
	seen := map[string]bool{}
	for i, f := range all {
		at := fmt.Sprintf("forecasts[%d].", i)
		p.given(at+"namespace", f.Namespace)
		p.given(at+"name", f.Name)
		p.given(at+"query", f.Query)
		if f.Kind != "Deployment" && f.Kind != "StatefulSet" {
			p.add(at+"kind", "%q: want Deployment or StatefulSet", f.Kind)
		}
		if !(f.PerReplica > 0) {
			p.add(at+"perReplica", "%v: want more than 0", f.PerReplica)
		}
		p.notNegative(at+"horizon", f.Horizon)
		p.notNegative(at+"history", f.History)
		p.notNegative(at+"step", f.Step)
		if s := f.series(); s.Step > 0 && s.History/s.Step > maxSteps {
			p.add(at+"step", "%s in steps of %s: want at most %d steps", s.History, s.Step, maxSteps)
		} else if s.Step > s.History {
			p.add(at+"step", "%s: longer than the history of %s", s.Step, s.History)
		}
		// The planner identifies a workload by its namespace and name.
		if key := f.Namespace + "/" + f.Name; seen[key] {
			p.add(at+"name", "duplicate forecast for %s", key)
		} else {
			seen[key] = true
		}
	}
	if len(all) > 0 && url == "" {
		p.add("forecasts", "require prometheus.url")
	}
}

func newOutlooks(c Config, log *slog.Logger) (*observe.Outlooks, error) {
	series := make([]observe.Series, len(c.Forecasts))
	for i, f := range c.Forecasts {
		series[i] = f.series()
	}
	if len(series) == 0 {
		return observe.NewOutlooks(nil, nil, forecastEvery, log), nil
	}
	client, err := prom.New(c.Prometheus.Config)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return observe.NewOutlooks(client, series, forecastEvery, log), nil
}
