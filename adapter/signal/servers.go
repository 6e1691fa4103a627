package signal

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// queues are the sources of pending requests. Queues that a request passes one after the
// other add up: Triton's and its TensorRT-LLM backend's, LMDeploy's two, the two of SGLang's
// decode server, Ray Serve's and its engines', an endpoint picker's and its servers'.
// Dynamo's frontend counts its workers' queues again.
func queues() []Source {
	vllm, sglang, prealloc := routed(metric.VLLMWaiting), gauge(metric.SGLangQueued), apart(gauge(metric.SGLangPrealloc))
	return tiers(
		spellings(vllm), spellings(sglang, prealloc),
		[][]Source{{unserved(underRay(vllm)), unserved(underRay(sglang)), underRay(prealloc), gauge(metric.RayQueued), gauge(metric.RayQueuedNew)}},
		variants(gauge(metric.LMDeployWaiting), apart(gauge(metric.LMDeployUnrouted))),
		variants(gauge(metric.TRTLLMWaiting)),
		variants(narrowed(metric.TritonLLMRequests, metric.LabelRequestType, "waiting"), gauge(metric.TritonPending)),
		variants(gauge(metric.NIMWaiting)),
		variants(unasked(gauge(metric.TGIQueue))), variants(gauge(metric.TEIQueue)), variants(gauge(metric.LlamaDeferred)),
		variants(gateway(metric.DynamoQueued)), variants(gateway(metric.DynamoStages)),
		variants(absentAs0(metric.EPPQueue, metric.EPPReady)),
		variants(absentAs0(metric.EPPQueueOld, metric.EPPReadyOld)),
	)
}

func running() []Source {
	return tiers(
		variants(routed(metric.VLLMRunning)), variants(gauge(metric.SGLangRunning)), variants(gauge(metric.LMDeployRunning)),
		variants(gauge(metric.TRTLLMRunning)),
		variants(narrowed(metric.TritonLLMRequests, metric.LabelRequestType, "scheduled")),
		variants(gauge(metric.NIMRunning)),
		variants(unasked(gauge(metric.TGIBatch))), variants(gauge(metric.LlamaProcessing)),
		variants(gauge(metric.RayProcessing), gauge(metric.RayProcessingNew)),
		variants(gateway(metric.DynamoActive)), variants(gateway(metric.DynamoInflight)),
		variants(gateway(metric.EPPRunning)), variants(gateway(metric.EPPRunningOld)), variants(gateway(metric.EPPRunningOldest)),
	)
}

func cacheUsages() []Source {
	// A picker keeps its last mean while its pool is empty (pkg/epp/datalayer/logger/logger.go of
	// llm-d-router 0.9).
	pool, old := gateway(metric.EPPCacheUsage), gateway(metric.EPPCacheUsageOld)
	pool.Unless, old.Unless = metric.EPPReady.Name, metric.EPPReadyOld.Name
	return tiers(
		variants(gauge(metric.VLLMCacheUsage)), variants(gauge(metric.VLLMCacheUsageOld)),
		variants(gauge(metric.SGLangCacheUsage)), variants(gauge(metric.LMDeployCacheUsage)),
		variants(gauge(metric.TRTLLMCacheUsage)),
		variants(gauge(metric.NIMCacheUsage)),
		variants(narrowed(metric.TritonLLMCache, metric.LabelBlockType, "fraction")),
		variants(gauge(metric.DynamoCacheUsage)), variants(gauge(metric.DynamoCacheUsageOld)),
		variants(pool), variants(old),
	)
}

// firstTokens reads the time to the first token. A server without a first token
// in the window is idle if it had no requests either, or if none waited and tokens
// were generated; otherwise it is stuck, and the value is unknown.
func firstTokens(q float64) []Source {
	vllm := quantile(metric.VLLMFirstToken, q, metric.VLLMWaiting, metric.VLLMRunning)
	sglang := quantile(metric.SGLangFirstToken, q, metric.SGLangQueued, metric.SGLangRunning)
	lmdeploy := quantile(metric.LMDeployFirstToken, q, metric.LMDeployWaiting, metric.LMDeployUnrouted, metric.LMDeployRunning)
	nim := quantile(metric.NIMFirstToken, q, metric.NIMWaiting, metric.NIMRunning)
	dynamo := quantile(metric.DynamoFirstToken, q, metric.DynamoQueued, metric.DynamoInflight)
	// SGLang's tokenizer counts first tokens, its schedulers the work. Only schedulers
	// have dp_rank, and until 2026 only they had engine_type (its tokenizer_manager.py).
	sglang.Idle.By = []string{metric.LabelModelName}
	vllm.Idle.Progress = &Series{Metric: metric.VLLMGenerationTokens.Name}
	sglang.Idle.Progress = &Series{Metric: metric.SGLangRealtimeTokens.Name, Matchers: Matchers{{Label: metric.LabelMode, Op: "=", Value: "decode"}}}
	lmdeploy.Idle.Progress = &Series{Metric: metric.LMDeployGenerationTokens.Name}
	nim.Idle.Progress = &Series{Metric: metric.NIMGenerationTokens.Name}
	dynamo.Idle.Progress = &Series{Metric: metric.DynamoOutputTokens.Name}
	staged := quantile(metric.DynamoFirstToken, q, metric.DynamoStages, metric.DynamoActive)
	staged.Idle.Progress = dynamo.Idle.Progress
	trtllm := []metric.Read{metric.TRTLLMWaiting, metric.TRTLLMRunning}
	triton := quantile(metric.TritonFirstResponse, q)
	triton.Scale = new(1e-3)
	return tiers(
		variants(vllm), variants(sglang), variants(lmdeploy),
		variants(quantile(metric.TRTLLMFirstToken, q, trtllm...)), variants(quantile(metric.TRTLLMFirstTokenOld, q, trtllm...)),
		variants(triton), variants(nim), variants(dynamo), variants(staged),
	)
}

// queueTimes are the sources of quantiles or means of the time in a queue, from histograms. A
// queue that was empty throughout the window means that no request was pending. Triton has no
// histogram, only total time and requests, which give a mean.
func queueTimes(form Form, q float64) []Source {
	var groups [][]Source
	for _, r := range [][2]metric.Read{
		{metric.VLLMQueueTime, metric.VLLMWaiting},
		{metric.SGLangQueueTime, metric.SGLangQueued},
		{metric.LMDeployQueueTime, metric.LMDeployWaiting},
		{metric.TRTLLMQueueTime, metric.TRTLLMWaiting},
		{metric.TRTLLMQueueTimeOld, metric.TRTLLMWaiting},
		{metric.TGIQueueDuration, metric.TGIQueue},
		{metric.TEIQueueDuration, metric.TEIQueue},
		{metric.EPPQueueTime, metric.EPPQueue},
		{metric.EPPQueueTimeOld, metric.EPPQueueOld},
	} {
		s := quantile(r[0], q, r[1])
		s.Form = form
		if s.Server == metric.ServerTGI {
			s = unasked(s)
		}
		groups = append(groups, variants(s)...)
	}
	if form == Mean {
		triton := quantile(metric.TritonQueueDuration, q, metric.TritonPending)
		triton.Form, triton.Over, triton.Scale = Rate, metric.TritonSuccess.Name, new(1e-6)
		groups = append(groups, variants(triton)...)
	}
	return tiers(groups)
}

// variants returns a group of the combined sources for each spelling of their names, and
// one for the first source under Ray's wrapper (vLLM, SGLang).
func variants(sources ...Source) [][]Source {
	all := spellings(sources...)
	if s := sources[0]; s.Server == metric.ServerVLLM || s.Server == metric.ServerSGLang {
		all = append(all, []Source{underRay(s)})
	}
	return all
}

// spellings returns a group of the combined sources for each way their names are written: as
// they are, as KServe's monitors rename them, and escaped.
func spellings(sources ...Source) [][]Source {
	all := [][]Source{sources}
	add := func(spell func(Source) Source) {
		var others []Source
		for _, s := range sources {
			others = append(others, spell(s))
		}
		all = append(all, others)
	}
	switch sources[0].Server {
	case metric.ServerVLLM:
		add(underKServe)
		add(escaped)
	case metric.ServerSGLang, metric.ServerLMDeploy:
		add(escaped)
	case metric.ServerEPP:
		add(underKServe)
	}
	return all
}

func escaped(s Source) Source {
	s = spelt(s, metric.Escape)
	if s.Server == metric.ServerLMDeploy {
		return s
	}
	return parted(s, metric.LabelWorkerAddr)
}

func underKServe(s Source) Source { return spelt(s, metric.UnderKServe) }

// gauge reads a series as it is.
func gauge(r metric.Read) Source {
	s := Source{Metric: r.Name, Server: r.Server, Identity: append([]string{}, r.Labels...)}
	// Models are loaded and unloaded, Ray's replicas move, and a picker forgets a flow
	// that has been empty for a while (pkg/epp/metrics/metrics.go of llm-d-router 0.9).
	s.Fleeting = r.Server == metric.ServerTriton || r.Server == metric.ServerRay || r.Server == metric.ServerEPP
	if mark := r.Mark(); mark != "" {
		s.Matchers = Matchers{{Label: mark, Op: "!="}}
	}
	if r.Server == metric.ServerEPP {
		// Clients choose the flows, up to a thousand (pkg/epp/metrics/cardinality.go).
		if slices.Contains(r.Labels, metric.LabelFairnessID) {
			s.Without = []string{metric.LabelFairnessID}
			s.Identity = slices.DeleteFunc(s.Identity, func(l string) bool { return l == metric.LabelFairnessID })
		}
		s.Page = &Series{Metric: metric.EPPReadyOld.Name} // llm-d's has both names
	}
	return s
}

func routed(r metric.Read) Source {
	s := parted(gauge(r), metric.LabelRoutedServer)
	s.GatewayLabel = metric.LabelRoutedServer
	return s
}

func gateway(r metric.Read) Source {
	s := gauge(r)
	s.Gateway = true
	return s
}

// underRay returns a source as Ray's wrapper exports it. A pod may have several replicas, so a
// label for the replica distinguishes them. vLLM has that label since 2025; older versions
// have only Ray's label for the worker. SGLang's replicas are not distinguished by worker:
// each of their schedulers may be one.
func underRay(s Source) Source {
	replica := []string{metric.LabelReplicaID}
	if s.Server == metric.ServerVLLM {
		replica = append(replica, metric.LabelWorkerID)
	}
	s = spelt(s, metric.UnderRay)
	// Ray exports no router's series.
	s.Identity = slices.DeleteFunc(slices.Clone(s.Identity), func(label string) bool { return label == s.GatewayLabel })
	s.GatewayLabel, s.Fleeting = "", true
	if s.histogram() {
		// Ray shows the counts of a worker that has ended for as long as the pod lives
		// (python/ray/_private/telemetry/open_telemetry_metric_recorder.py at 01624ad).
		s.Lives = &Evidence{Series: Series{Metric: metric.RayProcessing.Name}, Label: metric.LabelReplicaID, From: metric.LabelReplica}
	}
	return parted(s, replica...)
}

// unserved reads a missing gauge under Ray as 0 while Ray Serve's replicas on that pod have no
// requests. Ray exports a gauge for some seconds after it has been set, and an idle engine sets
// none (src/ray/observability/open_telemetry_metric_recorder.cc at 03e4c76).
func unserved(s Source) Source {
	s.Absent = &Absent{While: Evidence{Series: Series{Metric: metric.RayProcessing.Name}, Is: new(float64)}}
	return s
}

// spelt gives other names to the series of a source.
func spelt(s Source, name func(string) string) Source {
	of := func(by Series) Series { return Series{name(by.Metric), by.Matchers} }
	s.Metric = name(s.Metric)
	if s.Unless != "" {
		s.Unless = name(s.Unless)
	}
	if s.Page != nil {
		s.Page = new(of(*s.Page))
	}
	if s.Absent != nil {
		absent := *s.Absent
		absent.While.Series = of(absent.While.Series)
		s.Absent = &absent
	}
	if s.Idle != nil {
		idle := *s.Idle
		idle.While = slices.Clone(idle.While)
		for i, w := range idle.While {
			idle.While[i] = of(w)
		}
		if idle.Progress != nil {
			idle.Progress = new(of(*idle.Progress))
		}
		s.Idle = &idle
	}
	return s
}

// parted returns the source with more labels that distinguish its parts.
func parted(s Source, by ...string) Source {
	s.Identity = append(slices.Clone(s.Identity), by...)
	if s.Idle != nil {
		idle := *s.Idle
		idle.By = append(slices.Clone(idle.By), by...)
		s.Idle = &idle
	}
	return s
}

// apart is a source that adds up with those of its tier that have the same labels.
func apart(s Source) Source {
	s.Apart = true
	return s
}

// narrowed reads the series whose label has the value.
func narrowed(r metric.Read, label, value string) Source {
	s := gauge(r)
	s.Matchers = Matchers{{Label: label, Op: "=", Value: value}}
	return s
}

// quantile reads a quantile, which is 0 for an idle server.
func quantile(r metric.Read, q float64, work ...metric.Read) Source {
	s := gauge(r)
	s.Form, s.Quantile = Quantile, q
	if len(work) > 0 {
		s.Idle = idleWhile(r, work...)
	}
	return s
}

// idleWhile declares that NaN is 0 while other series of the same part are 0. A
// part is matched by the labels that all of these series have.
func idleWhile(of metric.Read, work ...metric.Read) *Idle {
	i := Idle{By: slices.Clone(of.Labels)}
	for _, r := range work {
		i.While = append(i.While, Series{Metric: r.Name})
		i.By = slices.DeleteFunc(i.By, func(l string) bool { return !slices.Contains(r.Labels, l) })
	}
	return &i
}

// unasked reads a missing series of TGI as 0 while TGI's batch limit is exported. The
// limit is set when the model is loaded, each other series with the first request
// (backends/v3/src/{lib,queue,backend}.rs, v3.3.7).
func unasked(s Source) Source {
	s.Absent = &Absent{While: Evidence{Series: Series{Metric: metric.TGIBatchLimit.Name}}}
	return s
}

// absentAs0 reads a queue whose series begins with the first pending request.
// While the picker reports an empty pool, a missing series means an empty
// queue. While there are servers it means nothing: their own series count, and
// a missing one must not become 0.
func absentAs0(r, ready metric.Read) Source {
	s := gauge(r)
	s.Absent = &Absent{While: Evidence{Series{Metric: ready.Name}, new(float64), metric.LabelInferencePool, metric.LabelName}}
	return s
}
