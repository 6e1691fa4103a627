package e2e

import (
	"fmt"
	"net/url"
	"strings"
)

// question is one request that is sent to both adapters.
type question struct {
	path, selector string // label selector of series; "" for none
	objects        string // label selector of the objects
	metric         string
	external       bool
}

func (q question) url() string {
	v := url.Values{}
	if q.external && q.selector != "" {
		v.Set("labelSelector", q.selector)
	}
	if !q.external && q.selector != "" {
		v.Set("metricLabelSelector", q.selector)
	}
	if q.objects != "" {
		v.Set("labelSelector", q.objects)
	}
	if len(v) == 0 {
		return q.path
	}
	return q.path + "?" + v.Encode()
}

func (q question) String() string {
	s := strings.TrimPrefix(q.path, "/apis/")
	if q.selector != "" {
		s += " {" + q.selector + "}"
	}
	if q.objects != "" {
		s += " of " + q.objects
	}
	return s
}

// questions returns all combinations of resources, names, selectors, metrics and versions.
func questions() []question {
	var all []question
	custom := func(path, metric, selector, objects string) {
		for _, v := range []string{"v1beta1", "v1beta2"} {
			all = append(all, question{path: "/apis/custom.metrics.k8s.io/" + v + "/" + path + "/" + metric, metric: metric, selector: selector, objects: objects})
		}
	}
	for _, metric := range []string{"jobs_waiting", "mem_bytes", "tiny", "minus", "bad_nan", "bad_inf", "bad_huge", "old_queue", "gone_queue",
		"http_requests_per_second", "running", "running_hidden", "by_values", "share", "relative", "not_a_vector", "never", "no_such_metric"} {
		for _, ns := range []string{"shop", "bank"} {
			custom("namespaces/"+ns+"/pods/*", metric, "", "")
			custom("namespaces/"+ns+"/pods/web-1", metric, "", "")
			custom("namespaces/"+ns+"/metrics", metric, "", "")
		}
		custom("namespaces/shop/pods/*", metric, "", "app=web")
		custom("namespaces/shop/pods/*", metric, "", "app=nobody")
		custom("namespaces/shop/pods/nobody", metric, "", "")
		custom("namespaces/void/pods/*", metric, "", "")
	}
	for _, selector := range []string{"topic=a", "topic!=a", "topic in (a,b)", "topic notin (a,b)", "topic", "!topic", "method=GET", "namespace=bank", "pod=web-2",
		"topic=a,version=1x2", "version in (1.2)", "version in (1.2,2)", "version notin (1.2)", "app.kubernetes.io/name=x", "a-b!=c", "topic>1", "topic<1"} {
		for _, metric := range []string{"jobs_waiting", "by_values", "share"} {
			custom("namespaces/shop/pods/*", metric, selector, "")
			custom("namespaces/shop/pods/web-2", metric, selector, "")
		}
		custom("namespaces/shop/metrics", "jobs_waiting", selector, "")
	}
	custom("namespaces/shop/services/front", "http_requests_per_second", "", "")
	custom("namespaces/shop/services/*", "http_requests_per_second", "", "")
	custom("namespaces/shop/services/front", "http_requests_per_second", "method=PUT", "")
	custom("namespaces/bank/services/front", "http_requests_per_second", "", "")
	custom("nodes/node-a", "temperature", "", "")
	custom("nodes/*", "temperature", "", "")
	custom("nodes/*", "temperature", "sensor=x", "")
	custom("nodes/node-z", "temperature", "", "")
	custom("namespaces/shop/deployments.apps/web", "backlog", "", "")
	custom("namespaces/shop/deployments.apps/*", "backlog", "", "")
	custom("namespaces/bank/deployments.apps/web", "backlog", "", "")
	custom("namespaces/bank/pods/web-1", "backlog", "", "")
	for _, metric := range []string{"lag", "lag_minus", "lag_nan", "lag_inf", "lag_huge", "lag_old", "lag_total", "lag_or_zero", "lag_scalar", "lag_anywhere", "lag_unlabelled", "no_such_metric"} {
		for _, ns := range []string{"shop", "bank", "void"} {
			for _, selector := range []string{"", "topic=a", "topic in (a,b)", "!topic", "namespace=bank", "a/b=c", "topic>1"} {
				all = append(all, question{
					path: fmt.Sprintf("/apis/external.metrics.k8s.io/v1beta1/namespaces/%s/%s", ns, metric), metric: metric, selector: selector, external: true,
				})
			}
		}
	}
	return all
}
