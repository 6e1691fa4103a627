package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpuscale/gpuscale/exporter/node"
)

// Cards is what can be asked to let go of cards: a node.Node.
type Cards interface {
	Quiesce(ctx context.Context, cards []string, d time.Duration) ([]node.Release, error)
	Resume(ctx context.Context, cards []string) error
	Quiesced(ctx context.Context) ([]node.Release, error)
}

// Verbs of a request.
const (
	verbQuiesce = "quiesce"
	verbResume  = "resume"
	verbStatus  = "status"
)

// request is a line on the socket.
type request struct {
	Op string `json:"op"`
	// Cards by UUID or index; empty for status only.
	Cards []string `json:"cards,omitempty"`
	// Seconds until the cards are taken back; 0 is node.DefaultQuiesce.
	Seconds int `json:"seconds,omitempty"`
}

// released is a card that is let go of.
type released struct {
	Card  string    `json:"card"`
	Until time.Time `json:"until"`
}

// answer is a line back.
type answer struct {
	OK       bool       `json:"ok"`
	Error    string     `json:"error,omitempty"`
	Released []released `json:"released,omitempty"`
}

// maxCards is more than a machine has.
const maxCards = 256

// parseRequest reads one line. A field that is not known is an error: a
// misspelt "seconds" would otherwise hold a card for another time than meant.
func parseRequest(line []byte) (request, error) {
	var r request
	if err := strict(line, &r); err != nil {
		return request{}, fmt.Errorf(`%w; want {"op":"quiesce","cards":["GPU-…"],"seconds":300}`, err)
	}
	switch {
	case r.Op != verbQuiesce && r.Op != verbResume && r.Op != verbStatus:
		return request{}, fmt.Errorf("op %q: want quiesce, resume or status", r.Op)
	case r.Op == verbStatus && len(r.Cards) > 0:
		return request{}, errors.New("cards: status is of all cards")
	case r.Op != verbStatus && len(r.Cards) == 0:
		return request{}, errors.New("cards: none is named")
	case r.Op != verbQuiesce && r.Seconds != 0:
		return request{}, fmt.Errorf("seconds: %s takes none", r.Op)
	}
	return r, checkCards(r.Cards, r.Seconds)
}

func checkCards(cards []string, seconds int) error {
	if len(cards) > maxCards {
		return fmt.Errorf("cards: %d, want at most %d", len(cards), maxCards)
	}
	if most := int(node.MaxQuiesce.Seconds()); seconds < 0 || seconds > most {
		return fmt.Errorf("seconds: %d, want 1 to %d, or 0 for %d", seconds, most, int(node.DefaultQuiesce.Seconds()))
	}
	return nil
}

// strict decodes one JSON object and nothing after it.
func strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("no request: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("no request: more than one JSON object")
	}
	return nil
}

// carryOut does what a request says.
func carryOut(ctx context.Context, cards Cards, r request) answer {
	var done []node.Release
	var err error
	switch r.Op {
	case verbQuiesce:
		done, err = cards.Quiesce(ctx, r.Cards, time.Duration(r.Seconds)*time.Second)
	case verbResume:
		err = cards.Resume(ctx, r.Cards)
	default:
		done, err = cards.Quiesced(ctx)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{OK: true, Released: toReleased(done)}
}

func toReleased(done []node.Release) []released {
	var out []released
	for _, r := range done {
		out = append(out, released{r.Card, r.Until.UTC().Truncate(time.Second)})
	}
	return out
}
