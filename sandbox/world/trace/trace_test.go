package trace

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

const head = header + "\n"

func TestParseReadsWhatTheDatasetHas(t *testing.T) {
	want := []Request{{0, 374, 44}, {4314579 * time.Microsecond, 396, 109}}
	for name, text := range map[string]string{
		"as published":    head + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
		"CRLF":            header + "\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n",
		"byte order mark": "\xef\xbb\xbf" + head + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109",
		"empty last line": head + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n\n\n",
	} {
		got, err := parse("azure.csv", strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got.Requests, want) || got.Name != "azure" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestParseRefusesNamingFileLineAndField(t *testing.T) {
	const ok = "2023-11-16 18:15:46.68,374,44\n"
	for text, want := range map[string]string{
		"":                                     "trace t.csv: no requests; the first line must be TIMESTAMP,ContextTokens,GeneratedTokens",
		head:                                   "trace t.csv: no requests; the first line must be TIMESTAMP,ContextTokens,GeneratedTokens",
		"a,b\n":                                `trace t.csv:1: the header is "a,b", want "TIMESTAMP,ContextTokens,GeneratedTokens"`,
		"a,b,c\n":                              `trace t.csv:1: the header is "a,b,c", want "TIMESTAMP,ContextTokens,GeneratedTokens"`,
		head + "x,1,1\n":                       `trace t.csv:2: TIMESTAMP: "x" is not a time like 2023-11-16 18:15:46.6805900`,
		head + ok + "2023-11-16 18:15,1,1":     `trace t.csv:3: TIMESTAMP: "2023-11-16 18:15" is not a time like 2023-11-16 18:15:46.6805900`,
		head + "2023-11-16 18:15:46,1.5,1\n":   `trace t.csv:2: ContextTokens: "1.5" is not a number of tokens from 1 to 1048576`,
		head + "2023-11-16 18:15:46,1,\n":      `trace t.csv:2: GeneratedTokens: "" is not a number of tokens from 1 to 1048576`,
		head + "2023-11-16 18:15:46,-7,1\n":    `trace t.csv:2: ContextTokens: "-7" is not a number of tokens from 1 to 1048576`,
		head + "2023-11-16 18:15:46,1048577,1": `trace t.csv:2: ContextTokens: "1048577" is not a number of tokens from 1 to 1048576`,
		head + "2023-11-16 18:15:46,1\n":       `trace t.csv:2: wrong number of fields`,
		head + ok + "2023-11-16 18:15:46.5,1,1\n": `trace t.csv:3: TIMESTAMP: 2023-11-16 18:15:46.5 is before the request above it; sort the file by time`,
		head + ok + "2024-11-16 18:15:46.5,1,1\n": `trace t.csv:3: TIMESTAMP: more than 744h0m0s after the first request`,
	} {
		if _, err := parse("t.csv", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%.60q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestSyntheticIsSeededOrderedAndShaped(t *testing.T) {
	of := func(seed uint64) Trace {
		tr, err := Synthetic{Seed: seed, Length: time.Hour, Base: 1.6, Peak: 8.5}.Make()
		require.NoError(t, err)
		return tr
	}
	a, b, c := of(7), of(7), of(8)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed gave two traces")
	}
	if reflect.DeepEqual(a.Requests, c.Requests) {
		t.Error("two seeds gave the same trace")
	}
	count := func(from, to time.Duration) (n int) {
		for _, r := range a.Requests {
			if r.At >= from && r.At < to {
				n++
			}
		}
		return n
	}
	low, busy := count(0, 9*time.Minute)/9, count(18*time.Minute, 36*time.Minute)/18
	if low < 60 || low > 150 || busy < 450 || busy > 750 {
		t.Errorf("requests a minute: %d low (want 60 to 150), %d at the plateau (want 450 to 750)", low, busy)
	}
	sum, last := 0, time.Duration(0)
	for i, r := range a.Requests {
		if r.At < last || r.Context < 1 || r.Generated < 1 {
			t.Fatalf("request %d: %+v after %s", i, r, last)
		}
		last, sum = r.At, sum+r.Context
	}
	if mean := sum / len(a.Requests); mean < 900 || mean > 1500 {
		t.Errorf("mean context %d tokens, want about 1,200", mean)
	}
}

func TestSyntheticRefusesNonsense(t *testing.T) {
	for _, s := range []Synthetic{{}, {Length: time.Hour}, {Length: time.Hour, Base: 2, Peak: 1}, {Length: MaxSpan, Base: 1, Peak: 1e4}} {
		if _, err := s.Make(); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + "2023-11-16 18:15:46.6805900,374,44\n")
	f.Add("\xef\xbb\xbf" + head + "2023-11-16 18:15:46,1,1\r\n\n")
	f.Add(head + "2023-11-16 18:15:46,-1,1")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := parse("f.csv", strings.NewReader(text))
		if err != nil && !strings.HasPrefix(err.Error(), "trace f.csv:") {
			t.Fatalf("it does not name the file: %v", err)
		}
		last := time.Duration(0)
		for _, r := range tr.Requests {
			if r.At < last || r.At > MaxSpan || r.Context < 1 || r.Context > MaxTokens || r.Generated < 1 || r.Generated > MaxTokens {
				t.Fatalf("accepted %+v", r)
			}
			last = r.At
		}
		if err == nil && len(tr.Requests) == 0 {
			t.Fatal("an empty trace was accepted")
		}
	})
}
