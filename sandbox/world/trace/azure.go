package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// header of the Azure LLM inference dataset 2023.
const header = "TIMESTAMP,ContextTokens,GeneratedTokens"

// longestLine is much longer than any line of the format.
const longestLine = 64

// Load reads a trace file in the Azure LLM inference CSV format.
func Load(path string) (Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return Trace{}, fmt.Errorf("opening the trace: %w", err)
	}
	defer f.Close()
	return parse(path, f)
}

// parse reads the Azure LLM inference CSV format: a header line, then lines such as "2023-11-16
// 18:15:46.6805900,374,44". A byte order mark, CRLF line ends and empty lines are accepted. Lines must be
// sorted by time. Errors name file, line and field.
func parse(file string, r io.Reader) (Trace, error) {
	const most = MaxRequests * longestLine
	limited := &io.LimitedReader{R: r, N: most + 1}
	rows := csv.NewReader(limited)
	rows.ReuseRecord = true
	t := Trace{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	var first time.Time
	var malformed *csv.ParseError
	for n := 0; ; n++ {
		row, err := rows.Read()
		switch {
		case limited.N == 0:
			return Trace{}, fmt.Errorf("trace %s: larger than %d bytes", file, most)
		case errors.Is(err, io.EOF) && n < 2:
			return Trace{}, fmt.Errorf("trace %s: no requests; the first line must be %s", file, header)
		case errors.Is(err, io.EOF):
			return t, nil
		case errors.As(err, &malformed):
			return Trace{}, fmt.Errorf("trace %s:%d: %w", file, malformed.Line, malformed.Err)
		case err != nil:
			return Trace{}, fmt.Errorf("trace %s: %w", file, err)
		}
		line, _ := rows.FieldPos(0)
		if n == 0 {
			if got := strings.TrimPrefix(strings.Join(row, ","), "\ufeff"); got != header {
				return Trace{}, fmt.Errorf("trace %s:%d: the header is %.60q, want %q", file, line, got, header)
			}
			continue
		}
		if n > MaxRequests {
			return Trace{}, fmt.Errorf("trace %s:%d: more than %d requests", file, line, MaxRequests)
		}
		req, err := t.request(row, &first)
		if err != nil {
			return Trace{}, fmt.Errorf("trace %s:%d: %w", file, line, err)
		}
		t.Requests = append(t.Requests, req)
	}
}

// request parses a line; first is the time of the first request.
func (t Trace) request(row []string, first *time.Time) (Request, error) {
	at, err := time.Parse("2006-01-02 15:04:05.999999999", row[0])
	if err != nil {
		return Request{}, fmt.Errorf("TIMESTAMP: %.60q is not a time like 2023-11-16 18:15:46.6805900", row[0])
	}
	if len(t.Requests) == 0 {
		*first = at
	}
	req := Request{At: at.Sub(*first)}
	switch {
	case req.At < t.Length():
		return Request{}, fmt.Errorf("TIMESTAMP: %s is before the request above it; sort the file by time", row[0])
	case req.At > MaxSpan:
		return Request{}, fmt.Errorf("TIMESTAMP: more than %s after the first request", MaxSpan)
	}
	for i, to := range []*int{&req.Context, &req.Generated} {
		if *to, err = strconv.Atoi(row[i+1]); err != nil || *to < 1 || *to > MaxTokens {
			return Request{}, fmt.Errorf("%s: %.60q is not a number of tokens from 1 to %d", strings.Split(header, ",")[i+1], row[i+1], MaxTokens)
		}
	}
	return req, nil
}
