package doctor

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// counted is the window in which the query counts scrapes.
const counted = 5 * time.Minute

// defaultMaxAge is the adapter's default. TestMaxAge compares it with the adapter's own.
const defaultMaxAge = 45 * time.Second

// maxAge returns the adapters' maxAge; known is false where it cannot be read.
func (l *look) maxAge(p Program) (age time.Duration, known bool) {
	if p.ConfigMap == "" {
		return defaultMaxAge, true
	}
	if !l.use(ConfigMaps) {
		return 0, false
	}
	for i := range l.f.ConfigMaps {
		m := &l.f.ConfigMaps[i]
		if m.Namespace != p.Namespace || m.Name != p.ConfigMap {
			continue
		}
		var c struct {
			MaxAge *metav1.Duration `json:"maxAge"`
		}
		text := m.Data["config.yaml"]
		if len(text) > maxConfig || yaml.Unmarshal([]byte(text), &c) != nil {
			l.cannot("ConfigMap %s/%s cannot be read", m.Namespace, m.Name)
			return 0, false
		}
		if c.MaxAge != nil && c.MaxAge.Duration > 0 {
			return c.MaxAge.Duration, true
		}
	}
	return defaultMaxAge, true
}

// scrapeSlow: samples exceed the adapter's maxAge for part of the time between two scrapes.
func scrapeSlow(l *look) {
	if l.noGPUs() {
		return
	}
	adapters := l.adapters()
	v, known := l.answer(Scrapes)
	if len(adapters) == 0 || !known {
		return
	}
	limit, known := l.maxAge(adapters[0])
	if !known {
		return
	}
	if len(v) == 0 {
		l.skip("no target of an exporter has been there for five minutes yet")
	}
	for _, s := range v {
		if !(s.Value > 0) {
			continue
		}
		every := time.Duration(float64(counted) / s.Value)
		if every*3/2 <= limit {
			continue
		}
		f := Finding{
			Object: "Prometheus",
			Seen: fmt.Sprintf("job %s was scraped %s times in %s: about every %s; the adapter drops values older than %s (maxAge)", s.Labels.Get("job"), number(s.Value),
				counted, every.Round(time.Second), limit),
			Means: "after one missed or late scrape HPAs on GPU signals do not scale",
			Fix:   fmt.Sprintf("Scrape every 15 s (monitoring.interval), or set adapter.config.maxAge to one and a half times the interval (%s).", (every * 3 / 2).Round(time.Second)),
		}
		for _, p := range l.programs("exporter") {
			f.Commands = []string{l.interval(p)}
			break
		}
		if every > limit {
			f.Means = "between two scrapes HPAs on GPU signals have no value, and do not scale"
			l.fault(f)
			continue
		}
		l.warn(f)
	}
}

// interval writes the command that has the Prometheus Operator scrape our exporters more
// often; none where it does not configure the scrape.
func (l *look) interval(p Program) string {
	if l.operator("get") == "" || p.Annotations[helmRelease] == "" {
		return ""
	}
	return l.install(p, "", "monitoring.interval=15s")
}
