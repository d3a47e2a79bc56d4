package test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModules: a module of its own is tested by make test, built against this checkout, and usable by those who import it: a replace in
// its go.mod would count for nobody but us. That of tools holds no package: it keeps what linters depend on out of the product's go.mod.
func TestModules(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^MODULES\s*:=(.*)$`).FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no MODULES")
	}
	found := map[string]string{}
	walk(t, func(file string, text []byte) {
		if path.Base(file) == "go.mod" && file != "go.mod" && file != "tools/go.mod" && !inTestdata(file) {
			found[path.Dir(file)] = string(text)
		}
	})
	for _, name := range strings.Fields(string(list[1])) {
		if _, ok := found[name]; !ok {
			t.Errorf("the Makefile names the module %s, which does not exist", name)
		}
	}
	for dir, text := range found {
		if !strings.Contains(" "+string(list[1])+" ", " "+dir+" ") {
			t.Errorf("%s is a module, and not among MODULES of the Makefile", dir)
		}
		if strings.HasPrefix(text, "replace") || strings.Contains(text, "\nreplace") {
			t.Errorf("%s/go.mod has a replace: put it into go.work beside it", dir)
		}
		if !strings.HasPrefix(text, "module "+module+"/"+dir+"\n") {
			t.Errorf("%s/go.mod is of another module", dir)
		}
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(dir), "go.work")); err != nil {
			t.Errorf("%s is not built against this checkout: %v", dir, err)
		}
	}
}
