package preview

import (
	"fmt"
	"io/fs"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// Loaded is a board and the titles of its annotations.
type Loaded struct {
	Board  dashboard.Dashboard
	Titles map[string]string
}

// UID of the board.
func (l Loaded) UID() string { return *l.Board.Uid }

// Load reads every board of a folder, sorted by file name.
func Load(folder fs.FS) ([]Loaded, error) {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, fmt.Errorf("listing boards: %w", err)
	}
	var all []Loaded
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("reading a board: %w", err)
		}
		d, titles, err := eval.Load(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Loaded{d, titles})
	}
	return all, nil
}
