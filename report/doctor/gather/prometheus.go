package gather

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// ask sends all queries to Prometheus, one after the other.
func (l *look) ask(ctx context.Context) {
	for _, d := range doctor.Table {
		if d.Query == "" || !l.wanted(d.Source) && d.Source != doctor.Builds && d.Source != doctor.GPUNodes {
			continue
		}
		if l.options.Prometheus == nil {
			l.unanswered(d.Source, l.options.NoPrometheus)
			continue
		}
		if err := l.question(ctx, d); err != nil {
			l.unanswered(d.Source, fmt.Sprintf("Prometheus: %v", err))
			// An unreachable server is not waited for twenty times.
			if errors.Is(err, prom.ErrUnavailable) || ctx.Err() != nil {
				l.giveUp(err)
				return
			}
		}
	}
}

func (l *look) question(ctx context.Context, d doctor.Described) error {
	if d.Source == doctor.Retention {
		l.facts.Queries++
		text, err := l.options.Prometheus.Retention(ctx)
		l.facts.Retention = text
		return err
	}
	l.facts.Queries++
	asked := time.Now()
	v, err := l.options.Prometheus.Query(ctx, Written(d.Query, l.options.Match), time.Time{})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.Answers[d.Source] = v
	if d.Source == doctor.Clock {
		l.facts.Asked = asked.Add(time.Since(asked) / 2)
	}
	return nil
}

// giveUp records why the remaining queries were not sent.
func (l *look) giveUp(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range doctor.Table {
		if _, answered := l.facts.Answers[d.Source]; d.Query != "" && !answered && l.facts.Missing[d.Source] == "" {
			l.facts.Missing[d.Source] = doctor.Clean(fmt.Sprintf("Prometheus: %v", err), 300)
		}
	}
}

func (l *look) unanswered(s doctor.Source, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.Missing[s] = doctor.Clean(why, 300)
}

// selector is a series' name after a dollar sign, and the opening of its matchers.
var selector = regexp.MustCompile(`\$([a-zA-Z_][a-zA-Z0-9_:]*)(\{)?`)

// Written puts the user's matchers into every selector of a query.
func Written(query, match string) string {
	return selector.ReplaceAllStringFunc(query, func(found string) string {
		m := selector.FindStringSubmatch(found)
		switch {
		case match == "":
			return m[1] + m[2]
		case m[2] == "":
			return m[1] + "{" + match + "}"
		}
		return m[1] + "{" + match + ","
	})
}
