package metric

// The series that the exporter emits and that adapter, autoscaler, dashboards and
// report read.
var (
	GPUInfo = Desc{
		Name: "gpu_info", Type: Gauge, Unit: Info, Owner: Exporter, Stability: Alpha,
		Help:   `A GPU and what it is. mig is "true" in MIG mode, else "false". Always 1.`,
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelModel, LabelPCIBusID, LabelMIG, LabelDriverVersion},
	}
	GPUInstanceInfo = Desc{
		Name: "gpu_instance_info", Type: Gauge, Unit: Info, Owner: Exporter, Stability: Alpha,
		Help:   "A MIG instance and its placement; start and size in memory slices. Always 1.",
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelGPUInstanceID, LabelProfile, LabelStart, LabelSize, LabelInstanceUUID},
	}
	GPUHeld = Desc{
		Name: "gpu_held", Type: Gauge, Unit: Bool, Owner: Exporter, Stability: Alpha,
		Help:     "1 for each container to which the GPU or instance is allocated.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID, LabelNamespace, LabelPod, LabelContainer},
		Optional: []string{LabelGPUInstanceID, LabelProfile},
	}
	GPUBusyRatio = Desc{
		Name: "gpu_busy_ratio", Type: Gauge, Unit: Ratio, Owner: Exporter, Stability: Alpha,
		Help:     "Share of time in which the GPU computed, 0 to 1 of the whole GPU.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID, LabelModel},
		Optional: container(),
	}
	GPUInstanceBusyRatio = Desc{
		Name: "gpu_instance_busy_ratio", Type: Gauge, Unit: Ratio, Owner: Exporter, Stability: Alpha,
		Help:     "Share of time in which the MIG instance computed, 0 to 1 of the instance.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID, LabelGPUInstanceID, LabelProfile},
		Optional: container(),
	}
	GPUShareRatio = Desc{
		Name: "gpu_share_ratio", Type: Gauge, Unit: Ratio, Owner: Exporter, Stability: Alpha,
		Help:     "Busy ratio times the instance's part of the GPU's compute slices. Sums to at most 1 for a GPU.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID},
		Optional: append([]string{LabelModel, LabelGPUInstanceID, LabelProfile}, container()...),
	}
	GPUMemoryUsedBytes = Desc{
		Name: "gpu_memory_used_bytes", Type: Gauge, Unit: Bytes, Owner: Exporter, Stability: Alpha,
		Help:     "Memory in use on the GPU or MIG instance.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID},
		Optional: append([]string{LabelModel, LabelGPUInstanceID, LabelProfile}, container()...),
	}
	GPUMemoryTotalBytes = Desc{
		Name: "gpu_memory_total_bytes", Type: Gauge, Unit: Bytes, Owner: Exporter, Stability: Alpha,
		Help:     "Memory of the GPU or MIG instance.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID},
		Optional: append([]string{LabelModel, LabelGPUInstanceID, LabelProfile}, container()...),
	}
	GPUPowerWatts = Desc{
		Name: "gpu_power_watts", Type: Gauge, Unit: Watts, Owner: Exporter, Stability: Alpha,
		Help:   "Power drawn, once for each GPU.",
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelModel},
	}
	GPUEnergyJoulesTotal = Desc{
		Name: "gpu_energy_joules_total", Type: Counter, Unit: Joules, Owner: Exporter, Stability: Alpha,
		Help:   "Energy drawn, once for each GPU: the driver's counter, continued where that restarts.",
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelModel},
	}
	GPUIdleSeconds = Desc{
		Name: "gpu_idle_seconds", Type: Gauge, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help:     "How long the GPU or instance has been allocated without computing.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID, LabelNamespace, LabelPod, LabelContainer},
		Optional: []string{LabelGPUInstanceID, LabelProfile},
	}
	GPUSampleAgeSeconds = Desc{
		Name: "gpu_sample_age_seconds", Type: Gauge, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help:     "Age of the newest value of the GPU or instance.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID},
		Optional: []string{LabelGPUInstanceID},
	}
	GPUAttributionAgeSeconds = Desc{
		Name: "gpu_attribution_age_seconds", Type: Gauge, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help:   "Age of the map from GPUs and instances to the pods they are allocated to.",
		Labels: []string{LabelNode},
	}
	GPUHealthy = Desc{
		Name: "gpu_healthy", Type: Gauge, Unit: Bool, Owner: Exporter, Stability: Alpha,
		Help:   "1 while the GPU is healthy, 0 when it is not, for the reason given.",
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelReason},
	}
	GPUBusySecondsTotal = Desc{
		Name: "gpu_busy_seconds_total", Type: Counter, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help:     "Seconds of the GPU spent computing since the exporter began to watch it; for a MIG instance, its part of the GPU. The integral of gpu_share_ratio.",
		Labels:   []string{LabelNode, LabelGPU, LabelGPUUUID},
		Optional: []string{LabelModel, LabelGPUInstanceID, LabelProfile},
	}
	GPUThrottleSecondsTotal = Desc{
		Name: "gpu_throttle_seconds_total", Type: Counter, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help:   "Seconds in which the GPU's clocks were lowered, by reason, since the exporter began to watch it. Reasons overlap.",
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelReason},
	}
	GPUXIDErrorsTotal = Desc{
		Name: "gpu_xid_errors_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help:   "XID errors of the GPU by code since the exporter began to watch it, each counted once.",
		Labels: []string{LabelNode, LabelGPU, LabelGPUUUID, LabelXID},
	}
)

// container are the labels of a series that names the container using the GPU.
func container() []string { return []string{LabelNamespace, LabelPod, LabelContainer} }

func gpuSeries() []Desc {
	return []Desc{
		GPUInfo, GPUInstanceInfo, GPUHeld, GPUBusyRatio, GPUInstanceBusyRatio, GPUShareRatio,
		GPUMemoryUsedBytes, GPUMemoryTotalBytes, GPUPowerWatts, GPUEnergyJoulesTotal, GPUIdleSeconds,
		GPUSampleAgeSeconds, GPUAttributionAgeSeconds, GPUHealthy, GPUXIDErrorsTotal,
		GPUBusySecondsTotal, GPUThrottleSecondsTotal,
	}
}
