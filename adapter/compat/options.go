package compat

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Options name the file and replace v0.12.0's flags. Nothing is served unless
// ConfigFile is set.
type Options struct {
	// ConfigFile is prometheus-adapter's own configuration file.
	ConfigFile string `json:"configFile,omitempty"`
	// Backend to query; the default one if empty.
	Backend string `json:"backend,omitempty"`
	// RelistInterval is --metrics-relist-interval: how often the series are
	// listed. 10m if zero.
	RelistInterval metav1.Duration `json:"relistInterval,omitempty"`
	// SeriesAge is --metrics-max-age: how far back discovery looks for series.
	// RelistInterval if zero.
	SeriesAge metav1.Duration `json:"seriesAge,omitempty"`
	// MaxAge is the age beyond which a sample is missing; v0.12.0 has no limit.
	// 5m if zero: Prometheus' own lookback, so that what v0.12.0 sees is served.
	MaxAge metav1.Duration `json:"maxAge,omitempty"`
}

// Enabled reports whether there is a file to serve.
func (o Options) Enabled() bool { return o.ConfigFile != "" }

// WithDefaults sets the defaults of zero fields.
func (o Options) WithDefaults() Options {
	o.RelistInterval.Duration = cmp.Or(o.RelistInterval.Duration, 10*time.Minute)
	o.SeriesAge = cmp.Or(o.SeriesAge, o.RelistInterval)
	o.MaxAge.Duration = cmp.Or(o.MaxAge.Duration, signal.Lookback)
	return o
}

// Validate returns all problems, each with its field. It reads no file.
func (o Options) Validate() error {
	var errs []error
	for name, d := range map[string]metav1.Duration{"relistInterval": o.RelistInterval, "seriesAge": o.SeriesAge, "maxAge": o.MaxAge} {
		if d.Duration < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", name))
		}
	}
	o = o.WithDefaults()
	if o.SeriesAge.Duration < o.RelistInterval.Duration {
		errs = append(errs, errors.New("seriesAge: must not be shorter than relistInterval"))
	}
	return errors.Join(errs...)
}
