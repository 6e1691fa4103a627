package jsonout_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/report/render/jsonout"
)

// small is a document of which each list has one element left: the golden report
// whole is too large to be mutated often.
func small(f *testing.F, raw []byte) []byte {
	f.Helper()
	var document any
	if err := json.Unmarshal(raw, &document); err != nil {
		f.Fatal(err)
	}
	var cut func(v any) any
	cut = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, field := range v {
				v[name] = cut(field)
			}
		case []any:
			if len(v) > 0 {
				return []any{cut(v[0])}
			}
		}
		return v
	}
	out, err := json.Marshal(cut(document))
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// FuzzRead: what is read can be written, and is read again as the same.
func FuzzRead(f *testing.F) {
	raw, err := os.ReadFile("../../testdata/golden/report.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small(f, raw))
	f.Add([]byte(`{"schema": 1, "window": {"from": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "hours": 24}}`))
	f.Add([]byte(`{"schema": 1, "hours": {"capacity": null}}`))
	f.Add([]byte(`{"schema": 1} {}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := jsonout.Read("r.json", raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "r.json") {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		var once, twice bytes.Buffer
		if err := jsonout.Write(&once, r); err != nil {
			t.Fatal(err)
		}
		back, err := jsonout.Read("r.json", once.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if err := jsonout.Write(&twice, back); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Error("written twice it is another")
		}
	})
}

// TestReadErrors: each has file, line and field.
func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "r.json:1",
		"{":                                    "r.json:1",
		`{"window": 1}`:                        "schema: is missing",
		`{"schema": 2}`:                        "schema: is 2, this gpuscale-report reads 1",
		"{\"schema\": 1,\n\"version\": 5}":     "r.json:2: version: want string",
		"{\"schema\": 1,\n\n\"colour\": \"\"}": "r.json:3: colour: is no field",
		`{"schema": 1}`:                        "window: want from before until",
	} {
		if _, err := jsonout.Read("r.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
