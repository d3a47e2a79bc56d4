package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
)

// SourceID names the server and the tables.
func SourceID(ctx context.Context, cfg *conn.Config, client *mongo.Client, h *conn.Hello) (string, error) {
	name := h.SetName
	if h.Sharded() {
		name = "sharded"
	}
	info, err := Find(ctx, client, cfg.Schema, Checkpoints)
	if err != nil {
		return "", err
	}
	if info == nil {
		return "", fmt.Errorf("%w: database %s: %w", source.ErrStop, cfg.Schema, checkpoint.ErrNoTables)
	}
	var names []string
	for i := range cfg.Tables {
		names = append(names, cfg.Tables[i].String())
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return name + "/" + hex.EncodeToString(info.Info.UUID.Data) + "/" + hex.EncodeToString(sum[:4]), nil
}

// ServerOf is the part of a SourceID that names the server.
func ServerOf(sourceID string) string {
	i := strings.LastIndexByte(sourceID, '/')
	return sourceID[:max(i, 0)]
}
