/**
 * Watermark alignment: sources of one group wait for those that are behind, so that what is buffered for the slowest (windows, joins) stays
 * small. Pure: members report their watermarks and ask how far they may go.
 *
 *   member:  aligned ⇄ ahead (its watermark is above the limit: it reads nothing)     ─► left (finished)
 *
 *   limit of a member = lowest watermark of the group + its own max drift; idle members and those that left do not count
 *
 * Each member looks at the group once per update interval only: between two looks it may run ahead by what it reads in that time.
 */
import { MAX_WATERMARK, MIN_WATERMARK } from '../element.ts'

/** As a watermark strategy asks for it. */
export interface AlignmentSettings {
  readonly group: string
  readonly maxDriftMs: number
  readonly updateIntervalMs: number
}

/** One source subtask in its group. */
export class AlignedMember {
  readonly name: string
  readonly settings: AlignmentSettings
  watermark = MIN_WATERMARK
  idle = false
  private readonly members: Set<AlignedMember>
  private allowed = MAX_WATERMARK
  private updatedAt = Number.NEGATIVE_INFINITY

  constructor(name: string, settings: AlignmentSettings, members: Set<AlignedMember>) {
    this.name = name
    this.settings = settings
    this.members = members
    members.add(this)
  }

  /** What is above it must not be read on. */
  get limit(): number {
    return this.allowed
  }

  /** Tells the group how far this member is; looks at the group if it is time to. */
  report(watermark: number, idle: boolean, now: number): void {
    this.watermark = watermark
    this.idle = idle
    if (now - this.updatedAt < this.settings.updateIntervalMs) return
    this.updatedAt = now
    const lowest = this.lowest()
    this.allowed = lowest === undefined ? MAX_WATERMARK : lowest + this.settings.maxDriftMs
  }

  /** Members that the others wait for. */
  heldBackBy(): string[] {
    const lowest = this.lowest()
    return [...this.members].flatMap((member) =>
      !member.idle && member.watermark === lowest ? [member.name] : [],
    )
  }

  /** It is finished, or its task ends: nobody waits for it any more. */
  leave(): void {
    this.members.delete(this)
  }

  private lowest(): number | undefined {
    let lowest: number | undefined
    for (const { idle, watermark } of this.members)
      if (!idle && (lowest === undefined || watermark < lowest)) lowest = watermark
    return lowest
  }
}

/** The groups of one job. */
export class WatermarkAlignment {
  private readonly groups = new Map<string, Set<AlignedMember>>()

  /** A new member of its group; it counts at once. `name` is for people. */
  join(name: string, settings: AlignmentSettings): AlignedMember {
    let members = this.groups.get(settings.group)
    if (members === undefined) {
      members = new Set()
      this.groups.set(settings.group, members)
    }
    return new AlignedMember(name, settings, members)
  }
}
