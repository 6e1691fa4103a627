package render

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/gpuscale/gpuscale/report/model"
)

// JSON writes the report in its versioned form, indented.
func JSON(w io.Writer, r model.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
