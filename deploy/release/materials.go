package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// materials writes the bill of materials: the modules that a binary says it is built of, as CycloneDX. All binaries are built of the same.
func (r *release) materials(binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	purl := func(path, version string) string { return fmt.Sprintf("pkg:golang/%s@%s", path, version) }
	self := cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: "tailbox", Version: r.version, BOMRef: "tailbox",
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}}
	components := []cyclonedx.Component{{Type: cyclonedx.ComponentTypePlatform, Name: "Go", Version: info.GoVersion, BOMRef: "go"}}
	uses := []string{"go"}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		ref := purl(m.Path, m.Version)
		components = append(components, cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: ref, BOMRef: ref,
			Properties: &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}})
		uses = append(uses, ref)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &self}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "tailbox", Dependencies: &uses}}
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("tailbox_%s_sbom.cdx.json", r.version)), out.Bytes(), 0o644)
}
