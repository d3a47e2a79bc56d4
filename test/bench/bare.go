package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tailbox/tailbox/test/slot"
)

// bare is the bare reader's process: it reads a slot, counts inserts, and confirms at the end. With a topic it produces what it
// reads first. After that it goes on until it is stopped.
func bare(args []string) error {
	set := flag.NewFlagSet("bare", flag.ContinueOnError)
	url := set.String("url", "", "database `URL`")
	name := set.String("slot", "", "`NAME` of the slot")
	publication := set.String("publication", "bench", "`NAME` of the publication")
	end := set.String("end", "", "`LSN` to confirm at; none = confirm as it goes")
	brokers := set.String("brokers", "", "Kafka `LIST`")
	topic := set.String("topic", "", "Kafka `TOPIC`")
	set.Int("rows", 0, "not used here")
	eager := set.Bool("eager", false, "produce what is there at once, in place of batches of 2000")
	if err := set.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	r, err := slot.Open(ctx, *url, *name, *publication, true)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, sayReading)
	// Streaming waits without bounds; the end of the process ends it.
	context.AfterFunc(ctx, func() { os.Exit(0) })
	var last uint64
	if *end != "" {
		if last, err = parseLSN(*end); err != nil {
			return err
		}
	}
	b := &barely{reader: r, last: last}
	if *topic != "" {
		b.out = newProducers(ctx, strings.Split(*brokers, ","), *topic, *eager)
	}
	return errors.Join(r.Stream(b.take), b.err)
}

func parseLSN(text string) (uint64, error) {
	var high, low uint64
	if _, err := fmt.Sscanf(text, "%X/%X", &high, &low); err != nil {
		return 0, fmt.Errorf("parse LSN %q: %w", text, err)
	}
	return high<<32 | low, nil
}

// barely is the least that can be done with a log.
type barely struct {
	reader *slot.Reader
	last   uint64
	rows   int
	out    *producers
	err    error
}

func (b *barely) take(p []byte) bool {
	switch p[0] {
	case 'I':
		b.rows++
		if b.out != nil {
			b.err = b.out.add(p)
		}
	case 'C':
		end := binary.BigEndian.Uint64(p[10:])
		b.reader.Confirm(end)
		if b.last != 0 && end >= b.last {
			if b.out != nil {
				b.err = errors.Join(b.err, b.out.flush())
			}
			b.err = errors.Join(b.err, b.reader.Status())
			b.last = 0
		}
	}
	return b.err == nil
}
