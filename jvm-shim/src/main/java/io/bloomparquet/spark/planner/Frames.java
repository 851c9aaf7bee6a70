package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;

/** Frames between this JVM and a planner: a length and JSON, then a length and data. */
final class Frames {
  static final int MAX_FRAME_BYTES = 1 << 30;
  private static final ObjectMapper JSON = new ObjectMapper();

  private Frames() {}

  static byte[] toBytes(ObjectNode request) throws PlannerException {
    try {
      byte[] bytes = JSON.writeValueAsBytes(request);
      if (bytes.length > MAX_FRAME_BYTES) {
        throw new PlannerException(
            "the predicate takes " + bytes.length + " bytes; the planner accepts at most " + MAX_FRAME_BYTES);
      }
      return bytes;
    } catch (JsonProcessingException error) {
      throw new PlannerException("the predicate cannot be sent to the planner: " + error.getOriginalMessage());
    }
  }

  static void write(DataOutputStream stream, byte[] head, byte[] body) throws IOException {
    stream.writeInt(head.length);
    stream.write(head);
    stream.writeInt(body.length);
    stream.write(body);
    stream.flush();
  }

  /** The JSON of the next frame. */
  static JsonNode json(DataInputStream stream) throws IOException {
    return JSON.readTree(part(stream));
  }

  /** The JSON or the data of a frame. */
  static byte[] part(DataInputStream stream) throws IOException {
    int length = stream.readInt();
    if (length < 0 || length > MAX_FRAME_BYTES) {
      throw new IllegalStateException("a frame of " + length + " bytes");
    }
    byte[] bytes = stream.readNBytes(length); // allocates as bytes arrive
    if (bytes.length < length) {
      throw new EOFException();
    }
    return bytes;
  }
}
