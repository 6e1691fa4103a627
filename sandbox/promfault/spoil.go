package promfault

import (
	"encoding/json"
	"fmt"
	"time"
)

// spoil applies a fault to an answer of Prometheus' query API. Answers with an error stay unchanged.
func spoil(how Answer, body []byte, now time.Time) ([]byte, error) {
	var d struct {
		Status    string   `json:"status"`
		Data      data     `json:"data"`
		Warnings  []string `json:"warnings,omitempty"`
		IsPartial bool     `json:"isPartial,omitempty"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, fmt.Errorf("spoiling an answer: %w", err)
	}
	if d.Status != "success" || d.Data.ResultType != "vector" {
		return body, nil
	}
	at := float64(now.UnixMilli()) / 1000
	switch how {
	case Empty:
		d.Data.Result = []any{}
	case ScalarZero:
		d.Data = data{"scalar", []any{at, "0"}}
	case Warned:
		d.Warnings = append(d.Warnings, "fetch series for store store-1: rpc error: code = Unavailable")
	case IsPartial:
		d.IsPartial = true
	case Stale:
		for _, s := range d.Data.Result {
			s.(map[string]any)["value"].([]any)[0] = at
		}
	}
	return json.Marshal(d)
}

type data struct {
	ResultType string `json:"resultType"`
	Result     []any  `json:"result"`
}
