package jsonout_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/render/jsonout"
)

// filled is a report with one element in each list and a value in each field.
func filled(f *testing.F) []byte {
	f.Helper()
	var r model.Report
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch at := v.Addr().Interface().(type) {
		case *model.Number:
			*at = model.Known(1.5)
			return
		case *time.Time:
			*at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		case reflect.String:
			v.SetString("x")
		case reflect.Int:
			v.SetInt(1)
		case reflect.Float64:
			v.SetFloat(1)
		case reflect.Bool:
			v.SetBool(true)
		default:
			f.Fatalf("a report has a %s", v.Type())
		}
	}
	fill(reflect.ValueOf(&r).Elem())
	r.Schema, r.Window.Until = model.Schema, r.Window.From.Add(time.Hour)
	var out bytes.Buffer
	if err := jsonout.Write(&out, r); err != nil {
		f.Fatal(err)
	}
	if _, err := jsonout.Read("r.json", out.Bytes()); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// FuzzRead: what is read can be written, and is read again as the same.
func FuzzRead(f *testing.F) {
	f.Add(filled(f))
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
		"{\"schema\": 1,\n\n\"colour\": \"\"}": "r.json:3: colour: is not a field",
		`{"schema": 1}`:                        "window: want from before until",
	} {
		if _, err := jsonout.Read("r.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
