package trace

import (
	"bufio"
	"bytes"
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

// maxLine is far above any line of the format.
const maxLine = 4096

// Error names the field and the line of a trace that cannot be used. Line counts
// from 1 and is 0 where the file as a whole is meant.
type Error struct {
	File  string
	Line  int
	Field string
	Msg   string
}

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("trace %s: %s", e.File, e.Msg)
	case e.Field == "":
		return fmt.Sprintf("trace %s:%d: %s", e.File, e.Line, e.Msg)
	}
	return fmt.Sprintf("trace %s:%d: %s: %s", e.File, e.Line, e.Field, e.Msg)
}

// Load reads a trace file in the Azure LLM inference CSV format.
func Load(path string) (Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return Trace{}, fmt.Errorf("opening the trace: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return Trace{}, &Error{File: path, Msg: "it is a folder; --trace takes a CSV file"}
	}
	return Parse(path, f)
}

// Parse reads the Azure LLM inference CSV format: a header line, then
// "2023-11-16 18:15:46.6805900,374,44". A byte order mark, CRLF line ends and
// empty lines at the end are accepted. Lines must be in order of time. Every
// error about the content is an *Error.
func Parse(file string, r io.Reader) (Trace, error) {
	p := parser{file: file, trace: Trace{Name: nameOf(file)}}
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, maxLine), maxLine)
	for scan.Scan() {
		p.line++
		if err := p.take(scan.Bytes()); err != nil {
			return Trace{}, err
		}
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Trace{}, &Error{File: file, Line: p.line + 1, Msg: fmt.Sprintf("longer than %d bytes", maxLine)}
	case err != nil:
		return Trace{}, fmt.Errorf("reading trace %s: %w", file, err)
	case p.line == 0:
		return Trace{}, &Error{File: file, Msg: "empty; the first line must be " + header}
	case len(p.trace.Requests) == 0:
		return Trace{}, &Error{File: file, Msg: "no requests below the header"}
	}
	return p.trace, nil
}

type parser struct {
	file  string
	line  int
	trace Trace
	first time.Time
	blank int // line number of an empty line seen, 0 for none
}

func (p *parser) fail(field, format string, args ...any) error {
	return &Error{File: p.file, Line: p.line, Field: field, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) take(raw []byte) error {
	if p.line == 1 {
		raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
		if got := strings.TrimSpace(string(raw)); got != header {
			return p.fail("", "the header is %q, want %q", truncate(got), header)
		}
		return nil
	}
	line := strings.TrimSuffix(string(raw), "\r")
	if line == "" {
		p.blank = p.line
		return nil
	}
	if p.blank != 0 {
		p.line = p.blank
		return p.fail("", "empty line between requests")
	}
	if len(p.trace.Requests) >= MaxRequests {
		return p.fail("", "more than %d requests", MaxRequests)
	}
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return p.fail("", "%d fields, want 3 (%s)", len(fields), header)
	}
	return p.request(fields[0], fields[1], fields[2])
}

func (p *parser) request(stamp, context, generated string) error {
	at, err := time.Parse("2006-01-02 15:04:05.999999999", stamp)
	if err != nil {
		return p.fail("TIMESTAMP", "%q is not a time like 2023-11-16 18:15:46.6805900", truncate(stamp))
	}
	if len(p.trace.Requests) == 0 {
		p.first = at
	}
	req := Request{At: at.Sub(p.first)}
	switch {
	case req.At < p.trace.Length():
		return p.fail("TIMESTAMP", "%s is before the request above it; sort the file by time", stamp)
	case req.At > MaxSpan:
		return p.fail("TIMESTAMP", "more than %s after the first request", MaxSpan)
	}
	if req.Context, err = p.tokens("ContextTokens", context); err != nil {
		return err
	}
	if req.Generated, err = p.tokens("GeneratedTokens", generated); err != nil {
		return err
	}
	p.trace.Requests = append(p.trace.Requests, req)
	return nil
}

func (p *parser) tokens(field, text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > MaxTokens:
		return 0, p.fail(field, "%s is above %d tokens", truncate(text), MaxTokens)
	case err != nil:
		return 0, p.fail(field, "%q is not a whole number", truncate(text))
	case n < 1:
		return 0, p.fail(field, "%d is not a positive number of tokens", n)
	}
	return n, nil
}

func nameOf(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// truncate keeps messages short when a binary file was given by mistake.
func truncate(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
