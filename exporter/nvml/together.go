package nvml

import (
	"errors"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Together returns the source so that quiescing it quiesces p too: both hold
// handles of a card.
func Together(source collect.Source, p *Processes) collect.Source {
	quiescer, ok := source.(collect.Quiescer)
	if !ok {
		return source
	}
	return together{source, quiescer, p}
}

type together struct {
	collect.Source
	quiescer  collect.Quiescer
	processes *Processes
}

func (t together) Quiesce(cards []string) error {
	return errors.Join(t.quiescer.Quiesce(cards), t.processes.Quiesce(cards))
}
