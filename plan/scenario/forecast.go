package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// forecast declares, changes or removes the forecast of a workload.
func (w *World) forecast(x *fields, key string) error {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return fmt.Errorf("want namespace/name: %q", key)
	}
	state := &w.Sim.State
	i := slices.IndexFunc(state.Forecasts, func(f plan.Forecast) bool { return f.Name == key })
	if x.has("gone") {
		if i < 0 {
			return fmt.Errorf("there is no forecast %s", key)
		}
		state.Forecasts = slices.Delete(state.Forecasts, i, i+1)
		return nil
	}
	if i < 0 {
		like := plan.Pod{Namespace: namespace, Name: name}
		state.Forecasts = append(state.Forecasts, plan.Forecast{Name: key, Like: like})
		i = len(state.Forecasts) - 1
	}
	forecastFields(x, &state.Forecasts[i])
	return nil
}

func forecastFields(x *fields, f *plan.Forecast) {
	requestFields(x, &f.Like)
	x.int("have", &f.Have)
	x.float("low", &f.Low)
	x.float("expected", &f.Expected)
	x.float("high", &f.High)
	x.time("at", &f.At, in)
	x.float("error", &f.Error)
	x.string("unsure", &f.Unsure)
	shapeFields(x, &f.Like)
}

func forecastText(f plan.Forecast, now time.Time) string {
	return "forecast " + quote(f.Name) + written(now, func(x *fields) { forecastFields(x, &f) }) + "\n"
}
