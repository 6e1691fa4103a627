// Command release makes what people download: archives, SBOMs, the chart,
// bundles, images and the sums of them all. It runs from the module's root and
// writes into one folder, the same bytes for the same commit and the same Go.
// It publishes nothing, signs nothing, and fetches nothing but modules.
package main
