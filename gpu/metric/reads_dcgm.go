package metric

// What dcgm-exporter says with pod attribution, and our exporter under the same
// names. DCGM renamed these fields; its exporter follows with its own version.
var (
	DCGMEngineActive = Read{
		Name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Share of time in which the card or MIG instance computed, 0 to 1.",
	}
	DCGMEngineActiveNew = Read{
		Name: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "The new name of DCGM_FI_PROF_GR_ENGINE_ACTIVE.",
	}
	DCGMTensorActive = Read{
		Name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Share of cycles in which the tensor pipe was active, 0 to 1.",
	}
	DCGMTensorActiveNew = Read{
		Name: "DCGM_FI_PROF_TENSOR_UTIL_RATIO", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "The new name of DCGM_FI_PROF_PIPE_TENSOR_ACTIVE.",
	}
	DCGMDRAMActive = Read{
		Name: "DCGM_FI_PROF_DRAM_ACTIVE", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Share of cycles in which the memory interface moved data, 0 to 1.",
	}
	DCGMDRAMActiveNew = Read{
		Name: "DCGM_FI_PROF_DRAM_UTIL_RATIO", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "The new name of DCGM_FI_PROF_DRAM_ACTIVE.",
	}
)

func dcgmLabels() []string { return []string{LabelUUID, LabelGPUI} }

func dcgmReads() []Read {
	return []Read{DCGMEngineActive, DCGMEngineActiveNew, DCGMTensorActive, DCGMTensorActiveNew, DCGMDRAMActive, DCGMDRAMActiveNew}
}
