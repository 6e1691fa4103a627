package replay

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Node is a row of a node list.
type Node struct {
	Name   string
	CPU    int    // thousandths of a core
	Memory int    // MiB
	GPUs   int    // GPUs
	Model  string // of the GPUs, "" for none
}

// Pod is a row of a pod list.
type Pod struct {
	Name   string
	CPU    int      // thousandths of a core
	Memory int      // MiB
	GPUs   int      // GPUs
	Milli  int      // thousandths of each GPU: 1000 unless GPUs is 1
	Models []string // that will do, empty for any
}

// GPU is p's request in thousandths of a GPU.
func (p Pod) GPU() int { return p.GPUs * p.Milli }

// Bounds of a row's numbers: beyond any machine, and small enough that sums do
// not overflow.
const (
	maxAmount = 1 << 40
	maxGPUs   = 256
)

// ReadNodes reads a node list: CSV whose header names the columns sn,
// cpu_milli, memory_mib, gpu and model, in any order; others are ignored.
// Errors have file, line and column; name is the file's name in them.
func ReadNodes(name string, r io.Reader) ([]Node, error) {
	var nodes []Node
	err := readRows(name, r, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, func(row *row) error {
		n := Node{Name: row.text("sn"), CPU: row.number("cpu_milli", maxAmount), Memory: row.number("memory_mib", maxAmount),
			GPUs: row.number("gpu", maxGPUs), Model: row.text("model")}
		if n.GPUs > 0 && n.Model == "" {
			row.fail("model", "a node with GPUs needs one")
		}
		nodes = append(nodes, n)
		return row.err
	})
	return nodes, err
}

// ReadPods reads a pod list: CSV whose header names the columns name,
// cpu_milli, memory_mib, num_gpu, gpu_milli and gpu_spec, in any order; others
// are ignored. gpu_spec is models separated by "|", empty for any. Errors have
// file, line and column; name is the file's name in them.
func ReadPods(name string, r io.Reader) ([]Pod, error) {
	var pods []Pod
	err := readRows(name, r, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"}, func(row *row) error {
		p := Pod{Name: row.text("name"), CPU: row.number("cpu_milli", maxAmount), Memory: row.number("memory_mib", maxAmount),
			GPUs: row.number("num_gpu", maxGPUs), Milli: row.number("gpu_milli", 1000)}
		switch {
		case row.err != nil:
		case p.GPUs == 0 && p.Milli != 0:
			row.fail("gpu_milli", "want 0 with num_gpu 0")
		case p.GPUs == 1 && p.Milli == 0:
			row.fail("gpu_milli", "want 1 … 1000 with num_gpu 1")
		case p.GPUs > 1 && p.Milli != 1000:
			row.fail("gpu_milli", "want 1000 with num_gpu above 1: a part is of one GPU")
		}
		p.Models = row.models("gpu_spec")
		pods = append(pods, p)
		return row.err
	})
	return pods, err
}

// row is one line of a file with a header. It keeps the first error.
type row struct {
	file    string
	reader  *csv.Reader
	columns map[string]int
	fields  []string
	err     error
}

// readRows calls each for every line after the header, which must have each of
// the columns once.
func readRows(name string, r io.Reader, want []string, each func(*row) error) error {
	reader := csv.NewReader(unmarked(r))
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s:1: empty, want a header with the columns %s", name, strings.Join(want, ", "))
	}
	if err != nil {
		return syntax(name, err)
	}
	row := &row{file: name, reader: reader, columns: map[string]int{}}
	for i, column := range header {
		column = strings.TrimSpace(column)
		if _, twice := row.columns[column]; twice && slices.Contains(want, column) {
			return fmt.Errorf("%s:1: two columns are called %q", name, column)
		}
		row.columns[column] = i
	}
	for _, column := range want {
		if _, ok := row.columns[column]; !ok {
			return fmt.Errorf("%s:1: no column %q, want %s", name, column, strings.Join(want, ", "))
		}
	}
	for {
		row.fields, err = reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return syntax(name, err)
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// unmarked is r without a leading byte order mark, which spreadsheets write and
// which would break a quoted first name.
func unmarked(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(len(mark)) // peeked above
	}
	return b
}

// syntax is the error of a file that is not CSV or cannot be read.
func syntax(name string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s:%d: %w", name, parse.Line, parse.Err)
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

func (r *row) fail(column, format string, args ...any) {
	if r.err == nil {
		line, _ := r.reader.FieldPos(r.columns[column])
		r.err = fmt.Errorf("%s:%d: %s: %s", r.file, line, column, fmt.Sprintf(format, args...))
	}
}

func (r *row) text(column string) string {
	return strings.Clone(strings.TrimSpace(r.fields[r.columns[column]]))
}

func (r *row) number(column string, most int) int {
	s := r.fields[r.columns[column]]
	// Some tools write whole numbers of a column with gaps as 8.0.
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(s), ".0"))
	if err != nil || n < 0 || n > most {
		r.fail(column, "%q: want a whole number, 0 … %d", s, most)
		return 0
	}
	return n
}

func (r *row) models(column string) []string {
	s := r.text(column)
	if s == "" {
		return nil
	}
	models := strings.Split(s, "|")
	if slices.Contains(models, "") {
		r.fail(column, "%q: want models separated by |, as in V100M16|V100M32", s)
	}
	return models
}
