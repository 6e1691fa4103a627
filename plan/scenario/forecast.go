package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// forecast declares, changes or removes the forecast of a workload.
func (w *World) forecast(s statement) error {
	r, key, err := w.reader(s, true)
	if err != nil {
		return err
	}
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return fmt.Errorf("want namespace/name: %q", key)
	}
	state := &w.Sim.State
	i := slices.IndexFunc(state.Forecasts, func(f plan.Forecast) bool { return f.Name == key })
	gone := false
	if r.flag("gone", &gone); gone {
		if i < 0 {
			return fmt.Errorf("there is no forecast %s", key)
		}
		state.Forecasts = slices.Delete(state.Forecasts, i, i+1)
		return r.err()
	}
	if i < 0 {
		like := plan.Pod{Namespace: namespace, Name: name}
		state.Forecasts = append(state.Forecasts, plan.Forecast{Name: key, Like: like})
		i = len(state.Forecasts) - 1
	}
	readForecast(r, &state.Forecasts[i])
	return r.err()
}

func readForecast(r *reader, f *plan.Forecast) {
	r.int("have", &f.Have)
	r.float("low", &f.Low)
	r.float("expected", &f.Expected)
	r.float("high", &f.High)
	r.in("at", &f.At)
	r.float("error", &f.Error)
	r.string("unsure", &f.Unsure)
	readShape(r, &f.Like)
}

func forecastText(f plan.Forecast, now time.Time) string {
	var b strings.Builder
	b.WriteString("forecast " + quote(f.Name))
	b.WriteString(demandText("requests", f.Like.Demand))
	stringText(&b, "unreadable", f.Like.Unreadable)
	intText(&b, "have", f.Have)
	floatText(&b, "low", f.Low)
	floatText(&b, "expected", f.Expected)
	floatText(&b, "high", f.High)
	inText(&b, "at", f.At, now)
	floatText(&b, "error", f.Error)
	stringText(&b, "unsure", f.Unsure)
	b.WriteString(shapeText(f.Like))
	b.WriteByte('\n')
	return b.String()
}
