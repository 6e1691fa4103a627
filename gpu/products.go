package gpu

import "strings"

// product is a Model and its other names, in the form that normal returns.
type product struct {
	Model
	spellings []string // that mean this model and no other
	open      []string // that do not determine the memory
}

// products are the known models. Memory is what the driver reports as the GPU's
// total, or the product's nominal size where no report is known.
var products = []product{
	nvidia("A100-40GB", 40960,
		"A100-SXM4-40GB", "A100-SXM-40GB", "A100-PCIE-40GB", "A100-40GB-PCIE").or("A100", "A100-SXM4", "A100-PCIE"),
	nvidia("A100-80GB", 81920,
		"A100-SXM4-80GB", "A100-SXM-80GB", "A100-PCIE-80GB", "A100-80GB-PCIE").or("A100", "A100-SXM4", "A100-PCIE"),
	nvidia("A800-40GB", 40960, "A800-40GB-ACTIVE", "A800-SXM4-40GB", "A800-PCIE-40GB").or("A800"),
	nvidia("A800-80GB", 81920, "A800-SXM4-80GB", "A800-PCIE-80GB", "A800-80GB-PCIE").or("A800"),
	nvidia("A30-24GB", 24576, "A30"),
	nvidia("A10", 23028),
	nvidia("A10G", 23028),
	nvidia("A10M", 23028),
	nvidia("A16", 15356),
	nvidia("A2", 15356),
	nvidia("A40", 46068),
	nvidia("PG506", 97871),
	nvidia("H100-80GB", 81559, "H100-SXM5-80GB", "H100-PCIE-80GB", "H100-PCIE", "H100-MEGA-80GB").or("H100"),
	nvidia("H100-96GB", 97871, "H100-SXM5-96GB").or("H100"),
	nvidia("H100-NVL-94GB", 95830, "H100-NVL").or("H100"),
	nvidia("H800-80GB", 81559, "H800-SXM5-80GB", "H800-PCIE", "H800"),
	nvidia("H800-NVL", 95830),
	nvidia("H20", 97871, "H20-96GB"),
	nvidia("H20-141GB", 143771, "H20-3E").or("H20"),
	nvidia("GH200-96GB", 97871, "GH200-480GB", "GH200-120GB").or("GH200"),
	nvidia("GH200-144GB", 147456, "GH200-144G-HBM3E").or("GH200"),
	nvidia("H200-141GB", 143771, "H200"),
	nvidia("H200-NVL", 143771),
	nvidia("B200-180GB", 183359, "B200"),
	nvidia("GB200-186GB", 189471, "GB200"),
	nvidia("B300", 275456),
	nvidia("GB300", 284672),
	nvidia("L4", 23034),
	nvidia("L2", 23034),
	nvidia("L20", 46068),
	nvidia("L40", 46068),
	nvidia("L40G", 24576),
	nvidia("L40S", 46068),
	nvidia("T4", 15360),
	nvidia("T4G", 15360),
	nvidia("V100-16GB", 16384, "V100-SXM2-16GB", "V100-PCIE-16GB", "V100-FHHL-16GB", "V100M16").or("V100"),
	nvidia("V100-32GB", 32768, "V100-SXM2-32GB", "V100-SXM3-32GB", "V100-PCIE-32GB", "V100S-PCIE-32GB", "V100M32").or("V100"),
	nvidia("P100-16GB", 16384, "P100-PCIE-16GB", "P100-SXM2-16GB").or("P100"),
	nvidia("P100-12GB", 12288, "P100-PCIE-12GB").or("P100"),
	nvidia("P40", 23040),
	nvidia("P4", 7680),
	nvidia("K80", 11441),
	nvidia("M60", 7680),
	nvidia("RTX-PRO-6000-Blackwell-96GB", 97887, "RTX-PRO-6000-BLACKWELL", "RTX-PRO-6000"),
	nvidia("RTX-PRO-5000-48GB", 48935).or("RTX-PRO-5000"),
	nvidia("RTX-PRO-5000-72GB", 73415).or("RTX-PRO-5000"),
	nvidia("RTX-PRO-4500-32GB", 32623, "RTX-PRO-4500-BLACKWELL", "RTX-PRO-4500"),
	nvidia("RTX-6000-ADA", 49140, "RTX-6000-ADA-GENERATION"),
	nvidia("RTX-5000-ADA", 32760, "RTX-5000-ADA-GENERATION"),
	nvidia("RTX-4500-ADA", 24570, "RTX-4500-ADA-GENERATION"),
	nvidia("RTX-4000-ADA", 20475, "RTX-4000-ADA-GENERATION", "RTX-4000-SFF-ADA-GENERATION"),
	nvidia("RTX-2000-ADA", 16380, "RTX-2000-ADA-GENERATION"),
	nvidia("RTX-A6000", 49140),
	nvidia("RTX-A5500", 24564),
	nvidia("RTX-A5000", 24564),
	nvidia("RTX-A4500", 20470),
	nvidia("RTX-A4000", 16376),
	nvidia("RTX-8000", 49152),
	nvidia("RTX-6000", 24576),
	nvidia("RTX-5000", 16384),
	nvidia("RTX-4000", 8192),
	nvidia("TITAN-RTX", 24576),
	nvidia("TITAN-V", 12288),
	nvidia("RTX-2080-TI", 11264),
	nvidia("RTX-3090", 24576),
	nvidia("RTX-3090-TI", 24564),
	nvidia("RTX-4080", 16376),
	nvidia("RTX-4090", 24564),
	nvidia("RTX-5080", 16303),
	nvidia("RTX-5090", 32607),

	other("amd", "MI100", 32752),
	other("amd", "MI210", 65520),
	other("amd", "MI250", 131056),
	other("amd", "MI250X", 131056),
	other("amd", "MI300A", 131072),
	other("amd", "MI300X", 196592),
	other("amd", "MI308X", 196592),
	other("amd", "MI325X", 262128),
	other("amd", "MI350X", 294896),
	other("amd", "MI355X", 294896),

	other("intel", "MAX-1100", 49152, "DATA-CENTER-GPU-MAX-1100"),
	other("intel", "MAX-1550", 131072, "DATA-CENTER-GPU-MAX-1550"),
	other("intel", "FLEX-140", 12288, "DATA-CENTER-GPU-FLEX-140"),
	other("intel", "FLEX-170", 16384, "DATA-CENTER-GPU-FLEX-170"),

	other("huawei", "ASCEND910", 32768),
	other("huawei", "ASCEND910B", 65536, "910B", "910B1", "910B2", "910B3", "ASCEND910B1", "ASCEND910B2", "ASCEND910B3"),
	other("huawei", "ASCEND310P", 24576, "310P", "310P3", "ASCEND310P3"),

	// The memory of a chip, by GKE's label cloud.google.com/gke-tpu-accelerator.
	other("google", "TPU-V4", 32768),
	other("google", "TPU-V5E", 16384, "TPU-V5-LITE"),
	other("google", "TPU-V5P", 97280),
	other("google", "TPU-V6E", 32768),
	other("google", "TPU7X", 196608, "TPU-V7X", "TPU-V7XE"),
}

func nvidia(name string, memoryMiB int, spellings ...string) product {
	return other("nvidia", name, memoryMiB, spellings...)
}

func other(vendor, name string, memoryMiB int, spellings ...string) product {
	return product{
		Model:     Model{Name: name, Vendor: vendor, MemoryMiB: memoryMiB},
		spellings: append(spellings, strings.ToUpper(name)),
	}
}

// or adds names that mean this model only where the memory agrees.
func (p product) or(names ...string) product {
	p.open = names
	return p
}
