package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
)

const (
	// doctorTime bounds what doctor asks of the database and the sinks.
	doctorTime = time.Minute
	// mostErrors is how many deliveries doctor counts the errors of.
	mostErrors = 10_000
	// archiveFolder is what an archive unpacks into.
	archiveFolder = "tailbox-doctor/"
)

func newDoctor() *cli.Command {
	var file, to string
	return &cli.Command{
		Name: "doctor", About: "writes one archive for a bug report: check, status, configuration, errors and versions, without secrets and payloads",
		Long: "It works while the database is down, and beside a relay or without one. The archive holds no secret, no payload, no header\n" +
			"and no answer of an endpoint. It does hold names: of hosts, database users, tables, columns, sinks and routes.",
		Example: "tailbox doctor -c tailbox.yaml\ntailbox doctor --file report.tar.gz",
		Flags: func(fs *flag.FlagSet) {
			pipeline.ConfigFlag(fs, &file)
			fs.StringVar(&to, "file", "", "archive to write, a new `FILE` (default tailbox-doctor-PIPELINE-TIME.tar.gz)")
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			now := time.Now().UTC()
			name := cmp.Or(to, "tailbox-doctor-"+p.Config.Pipeline+"-"+now.Format("20060102T150405Z")+".tar.gz")
			// The file is made first: what cannot be written is not worth asking for.
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, os.ErrExist) {
				return cli.WrongUsage("doctor: %s is there already: name another file with --file", name)
			}
			if err != nil {
				return fmt.Errorf("doctor: write the archive: %w: name another file with --file", err)
			}
			d := &doctor{p: p, at: now}
			d.collect(ctx, sh)
			if err := errors.Join(d.write(f), f.Close()); err != nil {
				return errors.Join(fmt.Errorf("doctor: write %s: %w", name, err), os.Remove(name))
			}
			return d.tell(sh.Out, name)
		},
	}
}

// A doctor collects the files of an archive.
type doctor struct {
	p     *pipeline.Pipeline
	at    time.Time
	files []doctorFile
}

// A doctorFile is a file of the archive. note says what is in it, or why it is not.
type doctorFile struct {
	name, note string
	text       []byte
}

func (d *doctor) add(name, note, text string) {
	d.files = append(d.files, doctorFile{name, note, []byte(text)})
}

// missing adds a file that says why what belongs there is missing. Errors may repeat secrets.
func (d *doctor) missing(name string, err error) {
	why := "missing: " + d.p.Hide(err.Error())
	d.add(name+".txt", cli.Cell(why, 0), why+"\n")
}

// addJSON adds a value; if there is an error instead, the file holds that.
func (d *doctor) addJSON(name, note string, v any, err error) {
	var b bytes.Buffer
	if err == nil {
		err = cli.PrintJSON(&b, v)
	}
	if err != nil {
		d.missing(name, err)
		return
	}
	d.add(name+".json", note, b.String())
}

// collect asks for everything. What cannot be had is missing, and the archive says why.
func (d *doctor) collect(ctx context.Context, sh *cli.Shell) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	d.add("version.txt", "the version and how it was built", versions())
	d.add("system.txt", "the operating system and the limits of this process", system())
	d.add("config.yaml", "the effective configuration, with secrets masked", d.p.Effective)
	db := d.p.Database(sh.Log(), nil)
	settings, err := db.Settings(ctx)
	d.addJSON("database", "the database server's version and settings", settings, err)
	found, _ := checkDatabase(ctx, d.p, db)
	for i := range found {
		found[i].What, found[i].Fix = d.p.Hide(beforeStart(found[i].What)), d.p.Hide(found[i].Fix)
	}
	d.addJSON("check", "what tailbox check finds", append(found, d.sinks(ctx)...), nil)
	if err != nil {
		away := errors.New("not asked for, because the database does not answer")
		d.missing("status", away)
		d.missing("errors", away)
	} else {
		d.addStatus(ctx, sh)
		errs, err := failures(ctx, db.Operator())
		d.addJSON("errors", "how many deliveries failed, by sink, state and class of error", errs, err)
	}
	metrics, err := pipeline.Metrics(ctx, &d.p.Config.Admin)
	if err != nil {
		d.missing("metrics", err)
		return
	}
	d.add("metrics.txt", "the metrics of the relay at "+d.p.Config.Admin.Listen, metrics)
}

// addStatus adds the status without names of groups, which may be customers, and without errors of statements, which repeat what rows hold.
func (d *doctor) addStatus(ctx context.Context, sh *cli.Shell) {
	s, err := pipeline.ReadStatus(ctx, sh, d.p)
	if err != nil {
		d.missing("status", err)
		return
	}
	for i := range s.Held {
		s.Held[i].Group = "***"
	}
	for i := range s.Feedback {
		s.Feedback[i].Error = "***"
	}
	d.addJSON("status", "what tailbox status -o json prints, without groups and errors of feedback", s.Whole, nil)
}

// sinks says which sinks have problems. The text of a problem may repeat what an endpoint said, so that only its class is told.
func (d *doctor) sinks(ctx context.Context) (found []check.Finding) {
	problems, err := checkSinks(ctx, d.p)
	if err != nil {
		return []check.Finding{{Level: check.Problem, What: "the sinks cannot be opened", Fix: "run tailbox check"}}
	}
	for _, s := range d.p.Config.Sinks {
		for _, one := range problems[s.Name] {
			what := fmt.Sprintf("sink %s of kind %s has a problem", s.Name, s.Kind)
			if class, _, _ := sink.Classify(one); class != sink.ClassRejected { // which is that of errors without one
				what += " of class " + class.String()
			}
			found = append(found, check.Finding{Level: check.Problem, What: what,
				Fix: "run tailbox check, which shows it: its text is left out here, because it may repeat what the endpoint said"})
		}
	}
	return found
}

// A failureCount is how many deliveries failed alike.
type failureCount struct {
	Sink        string           `json:"sink"`
	State       checkpoint.State `json:"state"`
	Class       string           `json:"error_class"`
	Count       int              `json:"count"`
	FirstParked time.Time        `json:"first_parked_at"`
	LastParked  time.Time        `json:"last_parked_at"`
}

// failures counts deliveries that are dead or retried.
func failures(ctx context.Context, o operate.Operator) ([]failureCount, error) {
	type kind struct {
		sink, class string
		state       checkpoint.State
	}
	counts := map[kind]*failureCount{}
	sel := checkpoint.Selection{States: []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying}}
	var after *store.ParkedKey
	for seen := 0; seen < mostErrors; {
		page, next, err := o.Page(ctx, sel, after, store.RequestChunk)
		if err != nil {
			return nil, err
		}
		for i := range page {
			one := &page[i]
			k := kind{one.Sink, one.ErrorClass, one.State}
			c := counts[k]
			if c == nil {
				c = &failureCount{Sink: one.Sink, State: one.State, Class: one.ErrorClass, FirstParked: one.ParkedAt}
				counts[k] = c
			}
			c.Count++
			if one.ParkedAt.Before(c.FirstParked) {
				c.FirstParked = one.ParkedAt
			}
			if one.ParkedAt.After(c.LastParked) {
				c.LastParked = one.ParkedAt
			}
		}
		if seen += len(page); next == nil {
			break
		}
		after = next
	}
	all := make([]failureCount, 0, len(counts))
	for _, c := range counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b failureCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Class, b.Class), cmp.Compare(a.State, b.State))
	})
	return all, nil
}

func versions() string {
	text := versionLine() + "\n"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "vcs.") || s.Key == "CGO_ENABLED" || s.Key == "GOAMD64" || s.Key == "-race" || s.Key == "-tags" {
				text += s.Key + " " + s.Value + "\n"
			}
		}
	}
	return text
}

// system describes the machine. What is not there, as on systems other than Linux, is left out.
func system() string {
	var b strings.Builder
	fmt.Fprintf(&b, "time: %s\nprocessors: %d, used %d\nGo's memory limit: %d\n", time.Now().Format(time.RFC3339), runtime.NumCPU(), runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1))
	for _, name := range []string{"/etc/os-release", "/proc/sys/kernel/osrelease", "/proc/loadavg", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
		"/sys/fs/cgroup/cpu.max", "/proc/self/limits"} {
		if text, err := os.ReadFile(name); err == nil {
			fmt.Fprintf(&b, "\n%s:\n%s\n", name, bytes.TrimSpace(text))
		}
	}
	return b.String()
}

// write writes the archive. Its first file says what the others are.
func (d *doctor) write(w io.Writer) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	about := "An archive of tailbox doctor, of pipeline " + d.p.Config.Pipeline + ", made at " + d.at.Format(time.RFC3339) + ".\n" +
		"It holds no secret, no payload, no header and no answer of an endpoint.\n\n" + d.contents()
	files := append([]doctorFile{{name: "README.txt", text: []byte(about)}}, d.files...)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Name: archiveFolder + f.name, Mode: 0o600, Size: int64(len(f.text)), ModTime: d.at}); err != nil {
			return err
		}
		if _, err := archive.Write(f.text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

func (d *doctor) contents() string {
	var b strings.Builder
	for _, f := range d.files {
		fmt.Fprintf(&b, "%-13s %s\n", f.name, f.note)
	}
	return b.String()
}

func (d *doctor) tell(w io.Writer, name string) error {
	_, err := fmt.Fprintf(w, "wrote %s:\n%sIt holds no secret, no payload, no header and no answer of an endpoint. Look at it before you send it.\n", name, d.contents())
	return err
}
