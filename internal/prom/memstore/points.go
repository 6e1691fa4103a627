package memstore

import (
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// Float is a value at a time in milliseconds.
type Float struct {
	Milli int64
	Value float64
}

// At is a value at a time.
func At(t time.Time, value float64) Float { return Float{t.UnixMilli(), value} }

// T implements chunks.Sample, like the following methods.
func (f Float) T() int64                    { return f.Milli }
func (Float) ST() int64                     { return 0 }
func (f Float) F() float64                  { return f.Value }
func (Float) H() *histogram.Histogram       { return nil }
func (Float) FH() *histogram.FloatHistogram { return nil }
func (Float) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (f Float) Copy() chunks.Sample         { return f }

// Histogram is a native histogram at a time in milliseconds.
type Histogram struct {
	Milli int64
	Value *histogram.FloatHistogram
}

// T implements chunks.Sample, like the following methods. They return copies,
// since the engine computes in place.
func (h Histogram) T() int64                      { return h.Milli }
func (Histogram) ST() int64                       { return 0 }
func (Histogram) F() float64                      { return 0 }
func (Histogram) H() *histogram.Histogram         { return nil }
func (h Histogram) FH() *histogram.FloatHistogram { return h.Value.Copy() }
func (Histogram) Type() chunkenc.ValueType        { return chunkenc.ValFloatHistogram }
func (h Histogram) Copy() chunks.Sample           { return h }
