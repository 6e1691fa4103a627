package play

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/sandbox/view"
)

// alertsTimeout of one query.
const alertsTimeout = 5 * time.Second

// alertsSince returns which of our alerts fired in a time range, each once, and which are pending at its end.
func alertsSince(ctx context.Context, prometheus string, from, until time.Time) (view.Alerts, error) {
	client, err := prom.New(prom.Config{URL: prometheus, Timeout: alertsTimeout})
	if err != nil {
		return view.Alerts{}, fmt.Errorf("asking for alerts: %w", err)
	}
	const by = "max by (alertname, severity) "
	fired, err := client.Query(ctx, fmt.Sprintf(by+`(max_over_time(ALERTS{alertstate="firing"}[%ds]))`, int(until.Sub(from).Seconds())+1), until)
	if err != nil {
		return view.Alerts{}, fmt.Errorf("asking for alerts: %w", err)
	}
	pending, err := client.Query(ctx, by+`(ALERTS{alertstate="pending"})`, until)
	if err != nil {
		return view.Alerts{}, fmt.Errorf("asking for alerts: %w", err)
	}
	return view.Alerts{Known: true, Fired: alertsIn(fired), Pending: alertsIn(pending)}, nil
}

func alertsIn(v prom.Vector) (out []view.Alert) {
	for _, s := range v {
		out = append(out, view.Alert{Name: s.Labels.Get("alertname"), Severity: s.Labels.Get("severity")})
	}
	slices.SortFunc(out, func(a, b view.Alert) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Name, b.Name))
	})
	return out
}
